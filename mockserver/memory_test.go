package mockserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// The memory used by tiny calls, by calls in single requests and by calls surrounded by
// white space stays below the limit.
func TestMemoryJournalLimitCountsMemory(t *testing.T) {
	const limit = 2 << 20
	for name, test := range map[string]struct {
		calls, space int
		destinations []string
	}{
		"a request for each call":    {1, 0, []string{"a"}},
		"white space":                {1, 800, []string{"a"}},
		"several destinations":       {1, 0, []string{"a", "b", "c"}},
		"small batches":              {20, 0, []string{"a"}},
		"batches with little of use": {20, 10_000, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var paused []tracking.Destination
			for _, name := range test.destinations {
				d := hook(name, "http://127.0.0.1:1/")
				d.Paused = true
				paused = append(paused, d)
			}
			c := newCollector(t, engine.Config{
				Journal: journal.NewMemory(limit), Destinations: paused, DedupCalls: 100, History: history.New(1),
			})
			before := heap()
			status := http.StatusOK
			for i := 0; status == http.StatusOK; i++ {
				body := strings.Replace(track(fmt.Sprint(i), test.calls), "[", "["+strings.Repeat(" ", test.space), 1)
				status = serve(c, http.MethodPost, "/v1/batch", body).Code
			}
			assert.Equal(t, http.StatusTooManyRequests, status)
			assert.Less(t, int64(heap()-before), int64(limit*3/2))
			health, err := c.Health(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, limit, health.Bytes, limit/50)
		})
	}
}
