//go:build race

package canonical_test

// raceEnabled: under the race detector, sync.Pool drops objects at random.
const raceEnabled = true
