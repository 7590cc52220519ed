package state_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A blockedStore blocks Keys until release is closed.
type blockedStore struct {
	state.Store
	release chan struct{}
}

func (s *blockedStore) Keys(ctx context.Context, prefix string) ([]string, error) {
	<-s.release
	return s.Store.Keys(ctx, prefix)
}

// An owner is a package that counts things by name.
type owner struct {
	stop          func()
	count, delete func(name string)
	counted       func(name string) int64
}

func anyName(string, time.Time) bool { return true }

var owners = map[string]func(store state.Store, log *slog.Logger) owner{
	"causes": func(store state.Store, log *slog.Logger) owner {
		c := stats.NewCauses()
		c.Start(store, log, anyName)
		return owner{c.Stop, func(name string) { c.Observe(attempt(name)) }, c.Delete, func(name string) (n int64) {
			for _, g := range c.Report().Failed {
				if g.Destination == name {
					n += g.Attempts.Total
				}
			}
			return n
		}}
	},
	"measures": func(store state.Store, log *slog.Logger) owner {
		d := stats.NewDestinations()
		d.Start(store, log, anyName)
		return owner{d.Stop, func(name string) { d.Observe(attempt(name)) }, d.Delete, func(name string) int64 {
			return d.Of(name).Day.Attempts
		}}
	},
	"shapes": func(store state.Store, log *slog.Logger) owner {
		s := shapes.New()
		s.Start(store, log)
		named := func(name string) shapes.Event { e, _ := s.Named("web", "track", name); return e }
		return owner{s.Stop, func(name string) {
			call := tracking.Call{Source: "web", Type: "track", Event: name, Body: []byte(`{"type":"track","event":"` + name + `"}`)}
			s.Observe(event.Accepted{Batch: event.Batch{Source: "web", Calls: []tracking.Call{call}}})
		}, func(name string) { s.Delete(named(name).ID) }, func(name string) int64 { return int64(named(name).Calls) }}
	},
}

func attempt(destination string) tracking.Attempt {
	return tracking.Attempt{Destination: destination, Attempt: webhook.Attempt{Time: time.Now(), Verdict: webhook.Permanent, Status: 400}}
}

// TestDeletionBeforeRestore deletes a name before its stored record is restored: another
// destination may have the name by then.
func TestDeletionBeforeRestore(t *testing.T) {
	for name, start := range owners {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, log := &blockedStore{state.NewMemory(), make(chan struct{})}, slog.New(slog.DiscardHandler)
				o := start(store.Store, log)
				synctest.Wait()
				o.count("crm")
				o.count("crm")
				o.count("other")
				o.stop()

				o = start(store, log)
				o.count("crm")
				o.delete("crm")
				o.count("crm")
				close(store.release)
				synctest.Wait()
				assert.EqualValues(t, 1, o.counted("crm"))
				assert.EqualValues(t, 1, o.counted("other"))
				o.delete("crm")
				o.stop()

				o = start(store.Store, log)
				synctest.Wait()
				defer o.stop()
				assert.Zero(t, o.counted("crm"))
				require.EqualValues(t, 1, o.counted("other"))
			})
		})
	}
}
