//go:build race

package shapes_test

// raceEnabled: under the race detector long tests do less.
const raceEnabled = true
