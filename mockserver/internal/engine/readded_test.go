package engine_test

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestDestinationAddedAgainStartsFresh removes a destination with failed calls and adds it again. The
// results of its predecessor are not its own, also if another collector made these changes and this
// collector missed the removal.
func TestDestinationAddedAgainStartsFresh(t *testing.T) {
	crm := []tracking.Destination{hook("crm")}
	for name, replace := range map[string]func(c *engine.Collector, j journal.Journal) error{
		"here": func(c *engine.Collector, _ journal.Journal) error {
			if err := c.Apply(t.Context(), settings.Settings{}); err != nil {
				return err
			}
			return c.Apply(t.Context(), settings.Settings{Destinations: crm})
		},
		"elsewhere": func(_ *engine.Collector, j journal.Journal) error { return j.Detach(t.Context(), "crm") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := journal.NewMemory(0)
				c := newCollector(t, engine.Config{
					Destinations: crm, Journal: j,
					WrapTransport: answering(func(string) (int, string) { return 400, "" }),
				})
				found := func(query string) (n int) {
					match := rows.ReadFilter(url.Values{"q": {query}}).Matcher(c.Attached())
					c.History().Scan(history.Newest, func(i *history.Item) bool {
						if match(i) {
							n++
						}
						return true
					})
					return n
				}
				send(t, c, "old", 3)
				synctest.Wait()
				require.Equal(t, engine.DestinationFailing, c.Status()[0].State)
				require.Equal(t, 3, found("status:failed"))
				require.Equal(t, 3, found("400"))
				n, err := c.ReplayCall(t.Context(), "crm", "key", "old-1", false)
				require.NoError(t, err)
				require.Equal(t, 1, n)
				synctest.Wait()

				time.Sleep(time.Second)
				require.NoError(t, replace(c, j))
				time.Sleep(2 * time.Second)
				n, err = c.ReplayCall(t.Context(), "crm", "key", "old-1", false)
				require.NoError(t, err, "the replay to the predecessor is irrelevant")
				assert.Zero(t, n)
				time.Sleep(time.Minute)
				s := c.Status()[0]
				assert.Equal(t, engine.DestinationIdle, s.State)
				assert.Zero(t, s.RecentAttempts)
				assert.Zero(t, s.Measures.Day.Attempts)
				assert.Nil(t, s.Measures.LastFailure)
				assert.Empty(t, c.Problems().Failed)
				assert.Zero(t, found("status:failed"))
				assert.Zero(t, found("400"), "a search for the reason")
				record, ok := c.History().Find("key", "old-0")
				require.True(t, ok)
				assert.Len(t, record.Ends, 1, "the history of the call")
				assert.Empty(t, export.NewCall(&record, c.Attached()).Destinations)
				n, err = c.ReplayCall(t.Context(), "crm", "key", "old-0", false)
				require.NoError(t, err)
				assert.Zero(t, n)

				send(t, c, "new", 2)
				synctest.Wait()
				assert.Equal(t, 2, c.Status()[0].RecentFailures)
				assert.Equal(t, 2, found("status:failed"))
			})
		})
	}
}
