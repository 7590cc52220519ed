package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// previewCalls is the maximum number of calls in a preview.
const previewCalls = 200

// A Preview counts the newest calls that a destination would get.
type Preview struct {
	Calls   int           `json:"calls"` // number of checked calls
	Sent    int           `json:"sent"`  // number of calls that the destination would get
	Reasons []ReasonCount `json:"reasons"`
}

// A ReasonCount is the number of calls that are excluded for a reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Calls  int    `json:"calls"`
}

// Preview applies the sources and filters of a destination to up to 200 of the newest retained
// calls. A disabled destination is treated as enabled. Reasons are sorted by number of calls,
// descending.
func (c *Collector) Preview(d tracking.Destination) Preview {
	d.Disabled = false
	p := Preview{Reasons: []ReasonCount{}}
	records, _ := c.config.History.Page(0, previewCalls, nil)
	for i := range records {
		p.Calls++
		deliver, reason := routing.Route(&d, &records[i].Call)
		if deliver {
			p.Sent++
			continue
		}
		at := slices.IndexFunc(p.Reasons, func(r ReasonCount) bool { return r.Reason == reason })
		if at < 0 {
			at = len(p.Reasons)
			p.Reasons = append(p.Reasons, ReasonCount{Reason: reason})
		}
		p.Reasons[at].Calls++
	}
	slices.SortFunc(p.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Reason, b.Reason))
	})
	return p
}
