//go:build race

package canonical_test

// raceEnabled reports the race detector, which makes sync.Pool drop random objects.
const raceEnabled = true
