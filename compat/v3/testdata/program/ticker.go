package main

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// ticker makes calls at intervals and logs verbosely.
func ticker(endpoint string) error {
	client, err := analytics.NewWithConfig("h97jamjwbh", analytics.Config{
		Endpoint:  endpoint,
		Interval:  30 * time.Second,
		BatchSize: 2,
		Verbose:   true,
		Logger:    quiet{},
	})
	if err != nil {
		return err
	}
	defer client.Close()

	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < 5; i++ {
		<-tick.C
		if err := client.Enqueue(analytics.Track{
			Event:  "Download",
			UserId: "123456",
			Properties: map[string]interface{}{
				"application": "Desktop",
				"version":     i,
				"platform":    "osx",
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

// quiet is a Logger that discards everything.
type quiet struct{}

func (quiet) Logf(string, ...interface{})   {}
func (quiet) Errorf(string, ...interface{}) {}

var _ analytics.Logger = quiet{}
