package engine

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A goneMark records that all webhooks of a destination responded with 410 (Gone). It applies
// until the destination is resumed, disabled, or changed to other URLs.
type goneMark struct {
	At       time.Time `json:"at"`
	Webhooks string    `json:"webhooks"` // digest of the URLs
}

// applies reports whether the mark still applies to a destination.
func (m goneMark) applies(d *tracking.Destination) bool {
	return !d.Disabled && m.Webhooks == digestOfURLs(d)
}

// digestOfURLs returns a digest of the URLs and the write key of a destination.
func digestOfURLs(d *tracking.Destination) string {
	var parts []string
	for _, w := range d.Endpoints() {
		parts = append(parts, w.URL)
	}
	if d.WriteKey != "" {
		parts = append(parts, d.WriteKey)
	}
	return text.Digest(parts...)
}

// onGone stops a destination in the background. If that fails, the next 410 response causes
// another attempt.
func (c *Collector) onGone(d *tracking.Destination) {
	mark := goneMark{time.Now().UTC().Truncate(time.Millisecond), digestOfURLs(d)}
	c.gone.put(d.Name, mark, func(last goneMark) bool { return last.Webhooks == mark.Webhooks })
}

// storeTimeout is the timeout for storing a gone mark or a requested pause.
const storeTimeout = 10 * time.Second

// storeGone stops a destination whose webhooks responded with 410, until Resume.
func (c *Collector) storeGone(destination string, mark goneMark) {
	if w := c.workers.of(destination); w == nil || !w.Destination().GoneSince.IsZero() {
		return // other calls that were in flight get a 410 too
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	err := c.change(ctx, func(stored *storedSettings, _ settings.Settings) error {
		if stored.Gone == nil {
			stored.Gone = map[string]goneMark{}
		}
		stored.Gone[destination] = mark
		return nil
	})
	switch {
	case err == nil:
		c.config.Logger.Warn("destination stopped: its webhooks responded with 410 (Gone); its calls fail until it is resumed or its URLs change", "destination", destination)
	case !errors.Is(err, state.ErrClosed):
		c.config.Logger.Error("could not stop a destination whose webhooks responded with 410 (Gone)", "destination", destination, "error", err)
	}
}

// pruneGone removes the marks that no longer apply. all contains the configured and the stored
// settings.
func (s *storedSettings) pruneGone(all settings.Settings) {
	maps.DeleteFunc(s.Gone, func(name string, mark goneMark) bool {
		d := all.Destination(name)
		return d == nil || !mark.applies(d)
	})
	if len(s.Gone) == 0 {
		s.Gone = nil
	}
}
