//go:build race

package analytics

func init() { raceDetector = true }
