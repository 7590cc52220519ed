package inspector

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// listRows is how many rows a list shows.
	listRows = 200
	// rowText is how many characters of a text a row shows.
	rowText = 160
)

// A row is one line of the list.
type row struct {
	Order  int64
	Ref    string
	Href   string // the list with this item beside it
	Kind   string // call, rejected or refused
	At     time.Time
	Type   string
	Title  string // the event, the page's name, or what stands for it
	User   string
	Anon   bool // User is an anonymousId
	Source string
	Chips  []chip
	Marks  []mark // what else is worth knowing
}

// A chip is one state in words and colour.
type chip struct {
	State string // delivered, pending, retrying, failed, filtered, unknown or rejected
	Label string
	Why   string
}

// newRow makes the row of an item. filter keeps the list as it is when the row is opened.
func (in *Inspector) newRow(i *history.Item, filter callFilter, destinations []engine.AttachedDestination) row {
	c := i.Call()
	r := row{
		Order: i.Order, Ref: in.c.History().RefOf(i), Kind: "call", At: i.At(),
		Type: text.Cut(20, c.Type), Title: text.Cut(rowText, titleOf(c)), Source: text.Cut(rowText, c.Source),
	}
	r.User, r.Anon = c.UserID, c.UserID == ""
	if r.Anon {
		r.User = c.AnonymousID
	}
	r.User = text.Cut(rowText, r.User)
	switch {
	case i.Rejection != nil:
		r.Kind = "rejected"
		r.Chips = []chip{{"rejected", string(i.Rejection.Code), i.Rejection.Message}}
	case i.Refusal != nil:
		r.Kind, r.Type, r.Title, r.Anon = "refused", "request", i.Refusal.Method+" "+text.Cut(rowText, i.Refusal.Path), false
		if n := i.Refusal.Count; n > 1 {
			r.Marks = []mark{{"repeats", "×" + text.GroupDigits(n), "Requests without a known write key are put together, by what was wrong with them"}}
		}
		r.Chips = []chip{{"rejected", string(i.Refusal.Code), i.Refusal.Message}}
	default:
		r.Chips = chipsOf(i.Record, destinations)
		r.Marks = marksOf(i.Record)
	}
	r.Href = filter.Link("/", "call", r.Ref)
	return r
}

// titleOf returns what a call is about, in one line.
func titleOf(c *tracking.Call) string {
	switch c.Type {
	case "track":
		return c.Event
	case "page", "screen":
		if c.Category != "" && c.Name != "" {
			return c.Category + " / " + c.Name
		}
		return c.Category + c.Name
	case "group":
		return c.GroupID
	case "alias":
		return c.PreviousID + " → " + c.UserID
	}
	return c.Event
}

// chipsOf returns the states of a call: one for each destination, or totals if there
// are many.
func chipsOf(r *tracking.Record, destinations []engine.AttachedDestination) []chip {
	const most = 3
	states := deliveryStatesOf(r, destinations)
	if len(states) <= most {
		chips := make([]chip, 0, most)
		for _, s := range states {
			chips = append(chips, chip{s.look(), text.Cut(40, s.Destination), s.words()})
		}
		return chips
	}
	counts := map[string]int{}
	for _, s := range states {
		counts[s.look()]++
	}
	var chips []chip
	for _, look := range []string{"failed", "retrying", "pending", "delivered", "filtered", "unknown"} {
		if n := counts[look]; n > 0 {
			chips = append(chips, chip{look, fmt.Sprintf("%d %s", n, lookWord(look)), text.Plural(n, "destination", "destinations")})
		}
	}
	return chips
}

// lookWord returns a look in words.
func lookWord(look string) string {
	switch look {
	case "pending":
		return "waiting"
	case "unknown":
		return "not known"
	case "apart":
		return "not sent"
	}
	return look
}

// look is the state as it is drawn: pending calls that were tried before are
// retrying.
func (s deliveryState) look() string {
	if s.State == tracking.StatePending && s.Attempt > 0 {
		return "retrying"
	}
	return s.state()
}

func (s deliveryState) words() string {
	switch {
	case s.Reason != "":
		return text.Cut(rowText, s.Reason)
	case s.Unknown:
		return "what became of it here is not known"
	case s.State == tracking.StatePending:
		return "not tried yet"
	}
	return s.State.String()
}

// A mark is a small sign behind a title.
type mark struct{ Name, Text, Why string }

func marksOf(r *tracking.Record) []mark {
	var marks []mark
	if history.IsSynthetic(&r.Call) {
		marks = append(marks, mark{"synthetic", "own", "The collector made this call itself, for an audience, a computed trait or a deletion request"})
	}
	if v := r.Call.Violations; len(v) > 0 {
		marks = append(marks, mark{"plan", "not as planned", text.Cut(rowText, v[0].Message)})
	}
	if r.Repeats > 0 {
		marks = append(marks, mark{"repeats", fmt.Sprintf("×%d", r.Repeats+1), "It came " + text.Plural(r.Repeats+1, "time", "times") + " and is stored once"})
	}
	if off := clockCorrection(&r.Call); off.Abs() >= time.Second {
		marks = append(marks, mark{"clock", "clock " + signed(off), "Its timestamp was corrected"})
	}
	return marks
}

// clockCorrection returns by how much the sender's clock was corrected.
func clockCorrection(c *tracking.Call) time.Duration {
	if c.OriginalTimestamp.IsZero() {
		return 0
	}
	return c.Timestamp.Sub(c.OriginalTimestamp)
}

func signed(d time.Duration) string {
	if d > 0 {
		return "+" + shortDuration(d)
	}
	return "−" + shortDuration(-d)
}

// A list is what the page of calls shows.
type list struct {
	Rows    []row
	Matched int
	Total   int
	Older   int64 // the order before which an older page begins; 0 where there is none
	Before  int64 // the order before which this page begins; 0 for the live one
	Filter  callFilter
	From    string // the feed's position, for a stream to go on from
}

// Hidden is how many items the filter hides.
func (l list) Hidden() int { return l.Total - l.Matched }

// list looks up the newest rows before an order, and counts.
func (in *Inspector) list(filter callFilter, before int64) list {
	h := in.c.History()
	destinations := in.c.Attached()
	match := filter.matcher(destinations)
	end, held := h.End()
	l := list{Filter: filter, Before: before, From: end.String(), Total: held}
	var shown []history.Item
	h.Scan(end.Order+1, func(i *history.Item) bool {
		if !match(i) {
			return true
		}
		l.Matched++
		if before > 0 && i.Order >= before {
			return true
		}
		if len(shown) == listRows {
			l.Older = shown[listRows-1].Order
		} else {
			shown = append(shown, i.Snapshot())
		}
		// Without a filter all match, and there is nothing to count.
		return l.Older == 0 || !filter.Empty()
	})
	if filter.Empty() {
		l.Matched = l.Total
	}
	for i := range shown {
		l.Rows = append(l.Rows, in.newRow(&shown[i], filter, destinations))
	}
	return l
}

// count returns how many items match, of how many.
func (in *Inspector) count(filter callFilter, match func(*history.Item) bool) (matched, total int) {
	end, total := in.c.History().End()
	if filter.Empty() {
		return total, total
	}
	in.c.History().Scan(end.Order+1, func(i *history.Item) bool {
		if match(i) {
			matched++
		}
		return true
	})
	return matched, total
}
