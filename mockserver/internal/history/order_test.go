package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestLateOutcomes observes outcomes of other collectors after later outcomes.
func TestLateOutcomes(t *testing.T) {
	now := time.Now()
	end := func(second, attempt int, state tracking.State) tracking.Ended {
		return tracking.Ended{CallID: "a", Source: "web", Destination: "crm", At: now.Add(time.Duration(second) * time.Second), Attempt: attempt, Outcome: tracking.Outcome{State: state}}
	}
	retry := end(1, 1, tracking.StatePending)
	failed, replayed := end(2, 2, tracking.StateFailed), end(3, 0, tracking.StatePending)
	again, delivered := end(4, 1, tracking.StatePending), end(5, 2, tracking.StateDelivered)
	otherDestination := end(9, 1, tracking.StateDelivered)
	otherDestination.Destination = "other"
	slow := end(0, 2, tracking.StateDelivered) // timestamp of a slow clock
	for name, c := range map[string]struct{ arrive, want []tracking.Ended }{
		"in order":                             {[]tracking.Ended{retry, failed, replayed, again, delivered}, nil},
		"failed after replayed":                {[]tracking.Ended{retry, replayed, failed}, []tracking.Ended{retry, failed, replayed}},
		"first outcome failed, after replayed": {[]tracking.Ended{replayed, failed}, []tracking.Ended{failed, replayed}},
		"failed after another destination":     {[]tracking.Ended{retry, replayed, otherDestination, failed}, []tracking.Ended{retry, failed, replayed, otherDestination}},
		"failed after the next attempt":        {[]tracking.Ended{retry, replayed, again, failed}, []tracking.Ended{retry, failed, replayed, again}},
		"replayed after delivered":             {[]tracking.Ended{failed, delivered, replayed}, []tracking.Ended{failed, replayed, delivered}},
		"replayed after a retry":               {[]tracking.Ended{failed, again, replayed, delivered}, []tracking.Ended{failed, replayed, again, delivered}},
		"by a slow clock":                      {[]tracking.Ended{retry, failed, replayed, slow}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := history.New(100)
			accept(h, "a")
			start := h.Activities("", 100, false, every).Next
			want := c.want
			if want == nil {
				want = c.arrive
			}
			for i, e := range c.arrive {
				before, _ := h.Find("web", "a")
				had := slices.Clone(before.Ends)
				h.Observe(e)
				assert.Equal(t, had, before.Ends, "a returned record, at outcome %d", i)
			}
			r, known := h.Find("web", "a")
			require.True(t, known)
			assert.Equal(t, want, r.Ends)
			var activities []tracking.Ended
			for _, a := range h.Activities(start, 100, false, every).Activities {
				activities = append(activities, *a.Ended)
			}
			assert.Equal(t, c.arrive, activities, "activities by arrival")
		})
	}
}
