//go:build !race

package shapes_test

const raceEnabled = false
