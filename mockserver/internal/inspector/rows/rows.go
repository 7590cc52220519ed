package rows

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TextLimit limits strings in a row, in characters.
const TextLimit = 160

// A Row is a row of the list.
type Row struct {
	Order int64
	Ref   string
	Href  string // URL of the list with this item open
	Kind  string // call, rejected or refused
	At    time.Time
	Type  string
	Title string // event name or page name, or a substitute
	User  string
	Anon  bool // whether User is an anonymousId
	// UserLink is the URL of the user page, or empty.
	UserLink string
	Source   string
	// Preview contains the first properties or traits.
	Preview string
	Chip    *Chip  // most urgent state and its destinations; nil without destinations
	Others  int    // number of destinations that Chip does not name
	Next    string // most urgent state of the others
	States  string // all destinations and their states, one per line; or the error of a rejection
	Marks   []Mark // additional information
}

// A Chip is a delivery state as text and color.
type Chip struct {
	State string // delivered, pending, retrying, failed, filtered, unknown or rejected
	Label string
}

// New returns the row of an item. The row links to the list with the same filter.
func New(h *history.History, i *history.Item, filter Filter, destinations []engine.AttachedDestination) Row {
	c := i.Call()
	r := Row{
		Order: i.Order, Ref: h.RefOf(i), Kind: "call", At: i.At(),
		Type: text.Cut(20, c.Type), Title: text.Cut(TextLimit, i.Title()), Source: text.Cut(TextLimit, c.Source),
	}
	r.User, r.Anon = cmp.Or(c.UserID, c.AnonymousID), c.UserID == ""
	r.UserLink, r.User = UserLink(r.User), text.Cut(TextLimit, r.User)
	r.Preview = previewOf(c.Type, c.Body)
	if p := i.Problem(); p != nil {
		r.Kind, r.Chip, r.States = "rejected", &Chip{"rejected", string(p.Code)}, p.Message
	} else {
		r.addStates(i.Record, destinations)
		r.Marks = marksOf(i.Record)
	}
	if f := i.Refusal; f != nil {
		r.Kind, r.Type, r.Anon = "refused", "request", false
		if f.Count > 1 {
			r.Marks = []Mark{{"repeats", "×" + text.GroupDigits(f.Count), "Requests without a known write key are grouped by error"}}
		}
	}
	r.Href = filter.Link("/", "call", r.Ref)
	return r
}

// UserLink returns the URL of a user page, or "" without an ID.
func UserLink(id string) string {
	if id == "" {
		return ""
	}
	return page.Link("/user", "id", id)
}

// chipText limits the label of a chip, in characters.
const chipText = 24

// addStates sets the chip and the states of a row. The chip names as many destinations in the
// most urgent state as fit.
func (r *Row) addStates(record *tracking.Record, destinations []engine.AttachedDestination) {
	var lines []string
	for _, s := range StatesOf(record, destinations) {
		name, look, response := text.Cut(40, s.Destination), s.Look(), s.Response(record)
		line := name + ": " + look + response
		if response == "" && s.words() != look {
			line += ", " + s.words()
		}
		lines = append(lines, line)
		label := name + response
		switch {
		case r.Chip == nil:
			r.Chip = &Chip{look, label}
		case r.Others == 0 && look == r.Chip.State && utf8.RuneCountInString(r.Chip.Label+", "+label) <= chipText:
			r.Chip.Label += ", " + label
		default:
			r.Next = cmp.Or(r.Next, look)
			r.Others++
		}
	}
	r.States = strings.Join(lines, "\n")
}

// Response returns the status or the error of the last attempt, after a space. It returns ""
// unless the call is failed or retrying.
func (s DeliveryState) Response(r *tracking.Record) string {
	if look := s.Look(); look != "failed" && look != "retrying" {
		return ""
	}
	switch last := lastAttempt(r, s.Destination); {
	case last == nil:
		return ""
	case last.Status > 0:
		return " " + strconv.Itoa(last.Status)
	default:
		return " " + strings.ReplaceAll(string(last.Reason), "_", " ")
	}
}

// previewOf returns the first properties or traits of a call.
func previewOf(typ string, body []byte) string {
	object := fields.Find(body, fields.Describing(typ))
	const most, longest = 8, 40
	var out strings.Builder
	n := 0
	for m := range jsonscan.Members(object) {
		if n++; n > most || out.Len() > TextLimit {
			out.WriteString(" …")
			break
		}
		if n > 1 {
			out.WriteString("  ")
		}
		out.WriteString(text.Cut(longest, string(jsonscan.Unquote(m.Key))) + ": ")
		switch m.Value[0] {
		case '"':
			value := jsonscan.Unquote(m.Value)
			out.WriteString(text.Cut(longest, string(value[:min(len(value), 5*longest)])))
		case '{':
			out.WriteString("{…}")
		case '[':
			out.WriteString("[…]")
		default:
			out.WriteString(text.Cut(longest, string(m.Value)))
		}
	}
	return out.String()
}

// Look returns the state for display. A pending call after a failed attempt is retrying.
func (s DeliveryState) Look() string {
	if s.State == tracking.StatePending && s.Attempt > 0 {
		return "retrying"
	}
	return s.state()
}

func (s DeliveryState) words() string {
	switch {
	case s.Reason != "":
		return text.Cut(TextLimit, s.Reason)
	case s.Unknown:
		return "delivery history has expired"
	case s.State == tracking.StatePending:
		return "waiting for first attempt"
	}
	return s.State.String()
}

// A Mark is a label next to a title.
type Mark struct{ Name, Text, Why string }

func marksOf(r *tracking.Record) []Mark {
	var marks []Mark
	if history.IsSynthetic(&r.Call) {
		marks = append(marks, Mark{"synthetic", "synthetic", "Sent by the collector for an audience, a computed trait or a deletion request"})
	}
	if v := r.Call.Violations; len(v) > 0 {
		marks = append(marks, Mark{"plan", "Plan violation", text.Cut(TextLimit, v[0].Message)})
	}
	if r.Repeats > 0 {
		marks = append(marks, Mark{"repeats", fmt.Sprintf("×%d", r.Repeats+1), "Received " + text.Plural(r.Repeats+1, "time", "times") + ", stored once"})
	}
	if off := ClockCorrection(&r.Call); off.Abs() >= time.Second {
		marks = append(marks, Mark{"clock", "clock " + Signed(off), "Timestamp corrected"})
	}
	return marks
}

// ClockCorrection returns the correction of the sender's clock.
func ClockCorrection(c *tracking.Call) time.Duration {
	if c.OriginalTimestamp.IsZero() {
		return 0
	}
	return c.Timestamp.Sub(c.OriginalTimestamp)
}

// Signed formats a duration with its sign.
func Signed(d time.Duration) string {
	if d > 0 {
		return "+" + page.ShortDuration(d)
	}
	return "−" + page.ShortDuration(-d)
}
