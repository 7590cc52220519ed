package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// tally counts outcomes.
type tally struct {
	wait              sync.WaitGroup
	delivered, failed atomic.Int64
}

func (t *tally) Success(analytics.Message) {
	t.delivered.Add(1)
	t.wait.Done()
}

func (t *tally) Failure(analytics.Message, error) {
	t.failed.Add(1)
	t.wait.Done()
}

// tagged is a transport that adds a header, for example for an API gateway.
type tagged struct{ http.RoundTripper }

func (t tagged) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Api-Key", "secret")
	return t.RoundTripper.RoundTrip(r)
}

// importUsers imports the history of users with its original times, and counts outcomes.
func importUsers(endpoint string) error {
	const users = 60
	var t tally
	client, err := analytics.NewWithConfig("import-key", analytics.Config{
		Endpoint:   endpoint,
		BatchSize:  25,
		Interval:   time.Second,
		Callback:   &t,
		Transport:  tagged{http.DefaultTransport},
		RetryAfter: func(attempt int) time.Duration { return time.Duration(attempt) * time.Millisecond },
	})
	if err != nil {
		return err
	}
	start := time.Date(2024, 2, 29, 12, 0, 0, 0, time.FixedZone("CET", 3600))
	for i := 0; i < users; i++ {
		t.wait.Add(1)
		_ = client.Enqueue(analytics.Identify{ // the callback reports errors
			MessageId: fmt.Sprintf("import-%03d", i),
			UserId:    fmt.Sprintf("user-%03d", i),
			Timestamp: start.Add(time.Duration(i) * time.Hour),
			Traits:    analytics.Traits{"n": i},
		})
	}
	if err := client.Close(); err != nil {
		return err
	}
	t.wait.Wait()
	if t.delivered.Load() != users {
		return fmt.Errorf("%d were delivered, %d failed", t.delivered.Load(), t.failed.Load())
	}
	return nil
}
