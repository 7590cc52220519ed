//go:build race

package users_test

// raceEnabled: under the race detector long tests do less.
const raceEnabled = true
