//go:build !race

package mockserver_test

const raceEnabled = false
