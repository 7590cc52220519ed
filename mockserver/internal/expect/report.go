package expect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxNear is the maximum number of calls that are compared with an expectation.
const maxNear = 100

// A Report contains the result of each expectation.
type Report struct {
	OK           bool     `json:"ok"`
	Code         string   `json:"code,omitempty"` // CodeNotMet if OK is false
	Message      string   `json:"message"`        // report as text
	WaitedMS     int64    `json:"waitedMs"`
	Source       string   `json:"source,omitempty"` // the source of the calls; empty for all sources
	Good         int      `json:"good"`             // number of accepted calls
	Bad          int      `json:"bad"`              // number of rejected calls, and of refused requests without a known source
	Expectations []Result `json:"expectations"`
	Came         []string `json:"came"`     // titles of the newest accepted calls
	NotTaken     []string `json:"notTaken"` // titles of the newest rejected calls
}

// CodeNotMet is the code of a Report that is not OK.
const CodeNotMet = "expectations_not_met"

// A Result is the result of one expectation.
type Result struct {
	OK       bool     `json:"ok"`
	Expected string   `json:"expected"` // expectation in one line
	Want     string   `json:"want"`     // expected number of calls, such as "at least 1"
	Got      int      `json:"got"`
	Problem  string   `json:"problem,omitempty"`
	Calls    []string `json:"calls,omitempty"` // titles of the first matching calls
	Nearest  *Near    `json:"nearest,omitempty"`
}

// A Near is the call that is nearest to an expectation.
type Near struct {
	Call        string   `json:"call"` // call in one line
	Source      string   `json:"source"`
	MessageID   string   `json:"messageId,omitempty"`
	Bad         bool     `json:"bad"`
	Differences []string `json:"differences"`
}

// Report explains the status of the expectations. newest contains the newest added calls, oldest
// first. Report searches them for the calls that are nearest to the expectations. If the request
// selects a source, newest also contains refused requests without a known source, because they can
// be the missing calls.
func (c *Checker) Report(newest []*Call, waited time.Duration) *Report {
	r := &Report{OK: c.Status() == Holding, WaitedMS: waited.Milliseconds(), Source: c.request.Source, Good: c.good, Bad: c.bad, Came: []string{}, NotTaken: []string{}}
	var added []*Call
	for _, call := range newest {
		what := cmp.Or(call.title(), "a request")
		if r.Source != "" && call.Source == "" {
			what += " without a known source"
			r.Bad++
		} else {
			added = append(added, call)
		}
		if call.isBad() {
			r.NotTaken = append(r.NotTaken, fmt.Sprintf("%s: %s: %s", call.Code, text.CutBytes(200, call.Message), what))
		} else {
			r.Came = append(r.Came, what)
		}
	}
	for i := range c.request.Expect {
		r.Expectations = append(r.Expectations, c.result(i, added))
	}
	r.Came, r.NotTaken = last(r.Came), last(r.NotTaken)
	if !r.OK {
		r.Code = CodeNotMet
	}
	r.Message = r.Text(func(i int) string { return fmt.Sprintf("expect[%d]", i) })
	return r
}

// last returns the last maxTitles titles.
func last(all []string) []string { return all[max(0, len(all)-maxTitles):] }

func (c *Checker) result(i int, newest []*Call) Result {
	e, t := c.request.Expect[i], &c.tallies[i]
	r := Result{Expected: e.title(), Want: e.count(), Got: t.got}
	switch {
	case t.got < e.least:
		r.Problem = fmt.Sprintf("got %s, want %s", countOf(t.got), r.Want)
		r.Nearest = e.nearest(newest)
	case e.isBounded() && t.got > e.most:
		r.Problem = fmt.Sprintf("got %s, want %s", countOf(t.got), r.Want)
		r.Calls = t.first
	case c.request.Ordered && c.next == i:
		r.Problem = fmt.Sprintf("got %s, but %s of them after the preceding expectations; calls count in order of arrival", countOf(t.got), text.GroupDigits(t.inOrder))
		r.Calls = t.first
	case c.request.Ordered && c.next < i && e.least > 0:
		r.Problem = "waiting for a preceding expectation"
	}
	r.OK = r.Problem == ""
	return r
}

func countOf(n int) string {
	if n == 0 {
		return "none"
	}
	return text.GroupDigits(n)
}

// nearest returns the call that is nearest to the expectation, or nil. Calls are compared by the
// number of matching literals, the number of differences, the edit distance, and the age, where newer
// calls win.
func (e *Expectation) nearest(newest []*Call) *Near {
	candidates := slices.Clone(newest)
	slices.Reverse(candidates)
	slices.SortStableFunc(candidates, func(a, b *Call) int { return cmp.Compare(e.misses(a), e.misses(b)) })
	var near *Near
	var least *jsondiff.Diff
	fewest := 0 // misses of the nearest call
	for _, c := range candidates[:min(len(candidates), maxNear)] {
		d := e.differences(c)
		if len(d.Lines) == 0 {
			continue // the call matches
		}
		if least != nil && e.misses(c) > fewest {
			break
		}
		if least == nil || cmp.Or(cmp.Compare(len(d.Lines), len(least.Lines)), cmp.Compare(d.Distance, least.Distance)) < 0 {
			least, fewest = d, e.misses(c)
			near = &Near{Call: c.title(), Source: c.Source, MessageID: c.ID, Bad: c.isBad(), Differences: d.Lines}
		}
	}
	return near
}

// Text formats the report. place returns the location of an expectation in its document.
func (r *Report) Text(place func(i int) string) string {
	var b strings.Builder
	failed := 0
	for _, e := range r.Expectations {
		if !e.OK {
			failed++
		}
	}
	waited := time.Duration(r.WaitedMS) * time.Millisecond
	all := text.Plural(len(r.Expectations), "expectation", "expectations")
	if r.OK {
		return fmt.Sprintf("%s met after %v", all, waited)
	}
	fmt.Fprintf(&b, "%s of %s not met after %v", text.GroupDigits(failed), all, waited)
	for i, e := range r.Expectations {
		if e.OK {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n  %s", place(i), e.Expected, e.Problem)
		for _, call := range e.Calls {
			fmt.Fprintf(&b, "\n    %s", call)
		}
		if left := e.Got - len(e.Calls); left > 0 && left < e.Got {
			fmt.Fprintf(&b, "\n    and %s more", text.GroupDigits(left))
		}
		if near := e.Nearest; near != nil {
			fmt.Fprintf(&b, "\n  nearest: %s\n    %s", cmp.Or(near.Call, "a request"), strings.Join(near.Differences, "\n    "))
		}
	}
	switch {
	case r.Good+r.Bad == 0 && r.Source != "":
		fmt.Fprintf(&b, "\nno calls from source %q: does the program use its write key, and does it flush?", r.Source)
	case r.Good+r.Bad == 0:
		b.WriteString("\nno calls: does the program send to this collector, and does it flush?")
	case r.Bad == 0:
		fmt.Fprintf(&b, "\naccepted %s", text.Plural(r.Good, "call", "calls"))
	default:
		fmt.Fprintf(&b, "\naccepted %s, rejected %s", text.Plural(r.Good, "call", "calls"), text.GroupDigits(r.Bad))
	}
	writeCalls(&b, "accepted", r.Came, r.Good)
	writeCalls(&b, "rejected", r.NotTaken, r.Bad)
	return b.String()
}

// writeCalls writes the newest calls, and the number of earlier ones.
func writeCalls(b *strings.Builder, what string, newest []string, all int) {
	if left := all - len(newest); left > 0 {
		fmt.Fprintf(b, "\n  %s: %s", what, text.Plural(left, "earlier call", "earlier calls"))
	}
	for _, call := range newest {
		fmt.Fprintf(b, "\n  %s: %s", what, call)
	}
}
