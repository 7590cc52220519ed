//go:build !race

package users_test

const raceEnabled = false
