package history

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestRecovery counts the recent attempts of a destination. The result does not depend on whether the
// outcomes are from this process, or on the order in which they arrive.
func TestRecovery(t *testing.T) {
	const pending, delivered, failed, filtered = tracking.StatePending, tracking.StateDelivered, tracking.StateFailed, tracking.StateFiltered
	repeat := func(n int, s tracking.State) (all []tracking.State) {
		for range n {
			all = append(all, s)
		}
		return all
	}
	for name, test := range map[string]struct {
		outcomes []tracking.State // one per second; the last one a second ago
		wait     time.Duration    // passes after the last outcome
		want     [2]int           // attempts and failures
	}{
		"none":                  {},
		"recovered":             {append(repeat(12, pending), delivered, delivered, pending), time.Minute, [2]int{3, 1}},
		"just recovered":        {append(repeat(12, pending), delivered), 0, [2]int{13, 12}},
		"few failures":          {append(repeat(9, pending), delivered), time.Minute, [2]int{10, 9}},
		"refused calls":         {append(repeat(12, failed), delivered), time.Minute, [2]int{13, 12}},
		"expired calls":         {append(append(repeat(12, pending), failed, failed), delivered), time.Minute, [2]int{1, 0}},
		"interrupted failures":  {append(append(repeat(9, pending), delivered), append(repeat(9, pending), delivered)...), time.Minute, [2]int{20, 18}},
		"filtered calls":        {append(append(repeat(9, pending), filtered), pending, delivered), time.Minute, [2]int{1, 0}},
		"recovered twice":       {append(append(repeat(10, pending), delivered), append(repeat(10, pending), delivered)...), time.Minute, [2]int{1, 0}},
		"more than the maximum": {append(repeat(100, pending), repeat(2, delivered)...), time.Minute, [2]int{2, 0}},
		"only failures":         {repeat(100, pending), time.Minute, [2]int{64, 64}},
	} {
		for place, observe := range map[string]func(h *History, outcomes []event.Event){
			"observed": func(h *History, outcomes []event.Event) {
				for _, e := range outcomes {
					h.Observe(e)
				}
			},
			"partly restored": func(h *History, outcomes []event.Event) {
				for _, e := range outcomes[len(outcomes)/2:] {
					h.Observe(e)
				}
				for _, e := range outcomes[:len(outcomes)/2] {
					h.Restore(e)
				}
			},
		} {
			t.Run(name+"/"+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var outcomes []event.Event
					for _, s := range test.outcomes {
						outcomes = append(outcomes, tracking.Ended{Destination: "d", At: time.Now(), Attempt: 1, Outcome: tracking.Outcome{State: s}})
						time.Sleep(time.Second)
					}
					time.Sleep(test.wait)
					h := New(0)
					observe(h, outcomes)
					attempts, failures := h.Outcomes("d", time.Time{})
					assert.Equal(t, test.want, [2]int{attempts, failures})
				})
			})
		}
	}
}
