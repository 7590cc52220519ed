package engine

import (
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A goneMark says that all webhooks of a destination answered 410, until it is resumed,
// disabled or has other URLs.
type goneMark struct {
	At       time.Time `json:"at"`
	Webhooks string    `json:"webhooks"` // a digest of the URLs
}

func newGoneMark(d *tracking.Destination) goneMark {
	return goneMark{time.Now().UTC().Truncate(time.Millisecond), digestOfURLs(d)}
}

// isOf reports whether the mark is of a destination as it is now.
func (m goneMark) isOf(d *tracking.Destination) bool {
	return !d.Disabled && m.Webhooks == digestOfURLs(d)
}

func digestOfURLs(d *tracking.Destination) string {
	urls := make([]string, len(d.Webhooks))
	for i, w := range d.Webhooks {
		urls[i] = w.URL
	}
	return text.Digest(urls...)
}

// A marker stores that destinations are gone, one at a time for each. Its methods may be
// called from many goroutines at once.
type marker struct {
	store    func(d *tracking.Destination)
	underWay sync.WaitGroup
	mu       sync.Mutex // guards names
	names    map[string]bool
}

// mark has it stored that a destination is gone, and does not wait. Where that fails, the
// next call that is answered so brings the destination here again.
func (m *marker) mark(d *tracking.Destination) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[d.Name] {
		return
	}
	if m.names == nil {
		m.names = map[string]bool{}
	}
	m.names[d.Name] = true
	m.underWay.Go(func() {
		m.store(d)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.names, d.Name)
	})
}

// wait waits for all that have begun. No other may begin any more.
func (m *marker) wait() { m.underWay.Wait() }
