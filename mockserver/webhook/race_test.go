//go:build race

package webhook

// raceEnabled: sync.Pool drops things at random under the race detector.
const raceEnabled = true
