//go:build race

package shapes_test

// raceEnabled shortens long tests under the race detector.
const raceEnabled = true
