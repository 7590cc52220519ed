package mockserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// readyTimeout is how long Ready waits for the journal.
const readyTimeout = 2 * time.Second

// A HealthChecker is a Journal that can tell how it is.
type HealthChecker interface {
	// Health returns what the journal holds, and an error if it could not store
	// a batch now: ErrJournalFull, or what keeps it from storing.
	Health(ctx context.Context) (JournalHealth, error)
}

// JournalHealth is how full a journal is.
type JournalHealth struct {
	Bytes      int64 `json:"bytes"`      // that its calls take
	LimitBytes int64 `json:"limitBytes"` // at which it refuses more; 0 where there is no limit
}

// A DestinationStatus says how a destination is doing.
type DestinationStatus struct {
	Destination string `json:"destination"`
	Paused      bool   `json:"paused"`
	// Down says that so many calls failed in a row that one at a time is tried.
	Down bool `json:"down"`
	// Failures is how many calls failed in a row.
	Failures int `json:"failures"`
	// ProbeAt is when the next call is tried while the destination is down.
	ProbeAt time.Time `json:"probeAt,omitzero"`
}

// Health returns how full the journal is, and an error if it could not store a
// batch now.
func (c *Collector) Health(ctx context.Context) (JournalHealth, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if checker, ok := c.journal.(HealthChecker); ok {
		return checker.Health(ctx)
	}
	return JournalHealth{}, nil
}

// Ready returns nil if the collector takes calls and can store them. Otherwise
// its error says why not.
func (c *Collector) Ready(ctx context.Context) error {
	if c.draining.Load() {
		return ErrClosed
	}
	_, err := c.Health(ctx)
	return err
}

// Status returns how each destination is doing, by name.
func (c *Collector) Status() []DestinationStatus {
	var all []DestinationStatus
	for _, f := range c.running() {
		all = append(all, f.status())
	}
	return all
}

func (f *forwarder) status() DestinationStatus {
	s := DestinationStatus{Destination: f.name}
	f.mu.Lock()
	s.Paused = f.paused
	f.mu.Unlock()
	f.gate.mu.Lock()
	defer f.gate.mu.Unlock()
	s.Failures, s.ProbeAt = f.gate.failures, f.gate.probeAt
	s.Down = !s.ProbeAt.IsZero()
	return s
}

// serveHealth answers that the process lives.
func (c *Collector) serveHealth(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "ok"})
}

// serveReady answers whether the collector is ready.
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

// logReady logs when readiness changes, not each time that somebody asks.
func (c *Collector) logReady(err error) {
	switch {
	case errors.Is(err, ErrClosed):
	case err != nil && !c.unready.Swap(true):
		c.log.Warn("the collector is not ready", "error", err)
	case err == nil && c.unready.Swap(false):
		c.log.Info("the collector is ready again")
	}
}
