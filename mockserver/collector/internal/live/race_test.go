//go:build race && unix

package live_test

func init() { raceDetector = true }
