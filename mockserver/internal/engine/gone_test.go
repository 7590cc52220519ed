package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A slowJournal attaches the destination ads slowly, and then returns an error unless it is nil.
type slowJournal struct {
	journal.Journal
	err error
}

func (j slowJournal) Attach(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	if destination == "ads" {
		time.Sleep(time.Second)
		if j.err != nil {
			return nil, j.err
		}
	}
	return j.Journal.Attach(ctx, destination, sources)
}

// TestGoneDuringStart checks a 410 response that arrives before New returns.
func TestGoneDuringStart(t *testing.T) {
	for name, failure := range map[string]error{"success": nil, "error": errors.New("no disk")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := journal.NewMemory(0)
				_, err := memory.Attach(t.Context(), "crm", nil)
				require.NoError(t, err)
				call := tracking.Call{ID: "m", Source: "web", Type: "track", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
				require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{call}}))
				c, err := engine.New(engine.Config{
					Journal: slowJournal{memory, failure}, Destinations: []tracking.Destination{hook("crm"), hook("ads")},
					WrapTransport: answering(func(string) (int, string) { return 410, "" }),
				})
				require.ErrorIs(t, err, failure)
				synctest.Wait()
				if err != nil {
					return
				}
				assert.NotZero(t, c.Settings().Destinations[0].GoneSince)
				require.NoError(t, c.Close())
			})
		})
	}
}
