package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
)

// readyTimeout is how long Ready waits for the journal.
const readyTimeout = 2 * time.Second

// A DestinationStatus is the status of a destination.
type DestinationStatus struct {
	Destination string           `json:"destination"`
	State       DestinationState `json:"state"`
	delivery.Status
	// RecentAttempts is the number of the destination's newest attempts with a known result since
	// it recovered, at most 64. A batch counts once. RecentFailures is the number of failures
	// among them.
	RecentAttempts int `json:"recentAttempts"`
	RecentFailures int `json:"recentFailures"`
	// Since is when the destination was attached.
	Since time.Time `json:"-"`
	// Measures are statistics of the attempts that this collector made.
	Measures stats.Measures `json:"measures"`
}

// A DestinationState summarizes the status of a destination.
type DestinationState string

// States of destinations. The first one that applies is used.
const (
	DestinationDisabled   DestinationState = "disabled"
	DestinationGone       DestinationState = "gone"       // the webhooks responded with 410; calls fail until Resume
	DestinationPaused     DestinationState = "paused"     // calls wait until Resume
	DestinationHeld       DestinationState = "held"       // the last response requires a pause; calls wait
	DestinationDown       DestinationState = "down"       // calls wait, with occasional attempts
	DestinationIdle       DestinationState = "idle"       // no known attempts
	DestinationFailing    DestinationState = "failing"    // at least half of the newest attempts failed
	DestinationDelivering DestinationState = "delivering" // most of the newest attempts succeeded
)

// state returns the state that summarizes the status.
func (s *DestinationStatus) state(enabled bool) DestinationState {
	switch {
	case !enabled:
		return DestinationDisabled
	case !s.GoneSince.IsZero():
		return DestinationGone
	case s.Paused:
		return DestinationPaused
	case !s.HeldUntil.IsZero():
		return DestinationHeld
	case s.Down:
		return DestinationDown
	case s.RecentAttempts == 0:
		return DestinationIdle
	case 2*s.RecentFailures >= s.RecentAttempts:
		return DestinationFailing
	}
	return DestinationDelivering
}

// Health returns the health of the journal, and an error if it cannot store a batch.
func (c *Collector) Health(ctx context.Context) (journal.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c.config.Journal.Health(ctx)
}

// Ready returns nil if the collector can accept and store calls, or the reason why not.
func (c *Collector) Ready(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return state.ErrClosed
	}
	_, err := c.Health(ctx)
	return err
}

// Status returns the status of each destination, sorted by name.
func (c *Collector) Status() []DestinationStatus {
	var all []DestinationStatus
	for _, w := range c.workers.all() {
		all = append(all, c.statusOf(w))
	}
	return all
}

func (c *Collector) statusOf(w *delivery.Worker) DestinationStatus {
	d := w.Destination()
	s := DestinationStatus{Destination: d.Name, Status: w.Status(), Since: w.Attachment().Since, Measures: c.destinationStats.Of(d.Name)}
	s.RecentAttempts, s.RecentFailures = c.config.History.Outcomes(d.Name, w.CountsSince())
	s.State = s.state(!d.Disabled && !c.isBeingRemoved(w))
	return s
}

// serveHealth reports that the process is running.
func (c *Collector) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "ok"})
}

// serveReady reports whether the collector is ready.
func (c *Collector) serveReady(w http.ResponseWriter, r *http.Request) {
	err := c.Ready(r.Context())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	c.logReady(err)
	if err == nil {
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "ready"})
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "unavailable", "message": err.Error()})
}

// logReady logs changes of the readiness.
func (c *Collector) logReady(err error) {
	switch {
	case errors.Is(err, state.ErrClosed):
	case err != nil && !c.unready.Swap(true):
		c.config.Logger.Warn("the collector is not ready", "error", err)
	case err == nil && c.unready.Swap(false):
		c.config.Logger.Info("the collector is ready again")
	}
}
