//go:build race

package users_test

// raceEnabled shortens long tests under the race detector.
const raceEnabled = true
