package main

import (
	"errors"
	"io"
	"log"
	"sync"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// telemetryClient reports the use of a tool. It waits for each event, because the tool
// can exit at any time.
type telemetryClient struct {
	client analytics.Client

	mu      sync.Mutex
	pending map[string]chan error
}

func (t *telemetryClient) Success(m analytics.Message)            { t.complete(m, nil) }
func (t *telemetryClient) Failure(m analytics.Message, err error) { t.complete(m, err) }

func (t *telemetryClient) complete(m analytics.Message, err error) {
	track, ok := m.(analytics.Track)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if done := t.pending[track.MessageId]; done != nil {
		done <- err
		delete(t.pending, track.MessageId)
	}
}

func (t *telemetryClient) send(id, event string, p analytics.Properties) error {
	done := make(chan error, 1)
	t.mu.Lock()
	t.pending[id] = done
	t.mu.Unlock()
	if err := t.client.Enqueue(analytics.Track{MessageId: id, AnonymousId: "machine-1", Event: event, Properties: p}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		return errors.New("the event was not sent in time")
	}
}

// telemetry is a tool that reports its commands.
func telemetry(endpoint string) error {
	t := &telemetryClient{pending: map[string]chan error{}}
	var err error
	t.client, err = analytics.NewWithConfig("telemetry-key", analytics.Config{
		Endpoint:  endpoint,
		BatchSize: 1,
		Logger:    analytics.StdLogger(log.New(io.Discard, "telemetry ", log.LstdFlags)),
		Callback:  t,
		DefaultContext: &analytics.Context{
			App: analytics.AppInfo{Name: "tool", Version: "2.0.1"},
			OS:  analytics.OSInfo{Name: "linux"},
			IP:  []byte{0, 0, 0, 0}, // prevents geolocation
		},
	})
	if err != nil {
		return err
	}
	defer t.client.Close()
	if err := t.send("t-1", "command started", analytics.NewProperties().Set("command", "build")); err != nil {
		return err
	}
	return t.send("t-2", "command ended", analytics.NewProperties().Set("command", "build").Set("took", 1500*time.Millisecond))
}
