package queue

import (
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// claims passes claims of other processes to the goroutines that wait for a destination. All
// waiters share one reader of STATE, which starts with the first waiter.
type claims struct {
	begin sync.Once

	mu      sync.Mutex                              // guards waiting
	waiting map[string]chan *jetstream.RawStreamMsg // channels keyed by subject; each holds the newest unread claim and is never closed
}

// wait returns a channel that receives the claims stored under a subject until stop is
// called.
func (c *claims) wait(set *Set, subject string) (changed <-chan *jetstream.RawStreamMsg, stop func()) {
	c.begin.Do(func() {
		set.Work.Go(func() {
			t := set.Tail(record.StreamState, 1, func(m *jetstream.RawStreamMsg) error {
				c.saw(m)
				return nil
			})
			t.Subjects = []string{set.Names.Subject("s", "order", "*")}
			if err := t.Follow(set.Ctx); set.Ctx.Err() == nil {
				set.Log.Error("watching the claims of other collectors failed; polling them instead", "error", err)
			}
		})
	})
	own := make(chan *jetstream.RawStreamMsg, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[string]chan *jetstream.RawStreamMsg{}
	}
	c.waiting[subject] = own
	return own, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting[subject] == own {
			delete(c.waiting, subject)
		}
	}
}

// saw sends a claim to the goroutine that waits for its subject.
func (c *claims) saw(m *jetstream.RawStreamMsg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.waiting[m.Subject]
	if own == nil {
		return
	}
	select {
	case <-own:
	default:
	}
	own <- m
}
