//go:build race

package mockserver_test

// raceEnabled: under the race detector long tests do less.
const raceEnabled = true
