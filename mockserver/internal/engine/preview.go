package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// previewCalls is how many calls a preview looks at.
const previewCalls = 200

// A Preview says which of the newest calls a destination would get.
type Preview struct {
	Calls   int           `json:"calls"` // that were looked at
	Sent    int           `json:"sent"`  // of these, those it would get
	Reasons []ReasonCount `json:"reasons"`
}

// A ReasonCount is how many calls a destination would not get for a reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Calls  int    `json:"calls"`
}

// Preview holds the newest calls that the History remembers, up to 200, against the
// sources and filters of a destination as if it were enabled. The reasons for which it
// would not get others come commonest first.
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
