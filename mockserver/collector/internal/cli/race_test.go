//go:build race && unix

package cli

func init() { raceDetector = true }
