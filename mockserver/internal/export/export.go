// Package export represents calls, attempts, activities and ledgers as JSON, in the format of the admin API,
// and calls as rows of CSV.
package export

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Call is an accepted call and its status.
type Call struct {
	Seq int64  `json:"seq"`
	Ref string `json:"ref"` // ref for the call page, /calls/{ref}
	tracking.Call
	Repeats      int             `json:"repeats"`
	RetryCount   int             `json:"retryCount"`
	Attempts     int             `json:"attempts"`
	Destinations []State         `json:"destinations"`
	Synthetic    bool            `json:"synthetic"`      // whether the collector sent the call
	Body         json.RawMessage `json:"body,omitempty"` // set for a single call, and in lists on request
}

// A State is the state of a call at a destination.
type State struct {
	Destination string         `json:"destination"`
	State       tracking.State `json:"state"`
	Reason      string         `json:"reason,omitempty"`
	At          time.Time      `json:"at"`
	Attempt     int            `json:"attempt"`
	RetryAt     time.Time      `json:"retryAt,omitzero"`
}

// NewCall returns a call without its body.
func NewCall(r *tracking.Record, destinations []engine.AttachedDestination) Call {
	c := Call{
		Seq: r.Seq, Ref: history.RefOfCall(r.Call.Source, r.Call.ID), Call: r.Call, Repeats: r.Repeats, RetryCount: r.RetryCount, Attempts: len(r.Attempts),
		Destinations: []State{}, Synthetic: history.IsSynthetic(&r.Call),
	}
	for _, e := range Latest(r, destinations) {
		c.Destinations = append(c.Destinations, State{e.Destination, e.State, e.Reason, e.At, e.Attempt, e.RetryAt})
	}
	return c
}

// Latest returns the known states of a call, sorted by destination; see [engine.States].
func Latest(r *tracking.Record, destinations []engine.AttachedDestination) []tracking.Ended {
	var all []tracking.Ended
	for e, known := range engine.States(r, destinations) {
		if known {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b tracking.Ended) int { return strings.Compare(a.Destination, b.Destination) })
	return all
}

// A Rejected is a rejected call or a refused request.
type Rejected struct {
	ReceivedAt  time.Time     `json:"receivedAt"`
	Ref         string        `json:"ref"`
	Source      string        `json:"source,omitempty"`
	MessageID   string        `json:"messageId,omitempty"`
	Type        string        `json:"type,omitempty"`
	Title       string        `json:"title,omitempty"` // event, name, or method and path of the request
	UserID      string        `json:"userId,omitempty"`
	AnonymousID string        `json:"anonymousId,omitempty"`
	Code        tracking.Code `json:"code"`
	Message     string        `json:"message"`
	Body        string        `json:"body,omitempty"` // may be invalid JSON
}

// A Line is a call that is exported as JSON or as a row of CSV.
type Line interface{ Row() []string }

// NewLine returns an item of the history, with its body.
func NewLine(h *history.History, i *history.Item, destinations []engine.AttachedDestination) Line {
	if i.Record != nil {
		c := NewCall(i.Record, destinations)
		c.Body = i.Record.Call.Body
		return c
	}
	c, p := i.Call(), i.Problem()
	return Rejected{
		ReceivedAt: i.At(), Ref: h.RefOf(i), Source: c.Source, MessageID: c.ID, Type: c.Type, Title: i.Title(), UserID: c.UserID, AnonymousID: c.AnonymousID,
		Code: p.Code, Message: p.Message, Body: text.Valid(p.Body),
	}
}

// Columns are the names of the columns of CSV.
var Columns = []string{"receivedAt", "timestamp", "status", "type", "event", "userId", "anonymousId", "source", "messageId", "destinations", "problem", "violations", "body"}

// Row returns the call as a row of CSV. The status is the most urgent status at a destination.
func (c Call) Row() []string {
	status := ""
	var states, problems, violations []string
	for _, s := range []tracking.State{tracking.StateFailed, tracking.StatePending, tracking.StateDelivered, tracking.StateFiltered} {
		if status == "" && slices.ContainsFunc(c.Destinations, func(d State) bool { return d.State == s }) {
			status = s.String()
		}
	}
	for _, d := range c.Destinations {
		states = append(states, d.Destination+": "+d.State.String())
		if d.Reason != "" {
			problems = append(problems, d.Destination+": "+d.Reason)
		}
	}
	for _, v := range c.Violations {
		violations = append(violations, v.Message)
	}
	return cells(timeCell(c.ReceivedAt), timeCell(c.Timestamp), status, c.Type, event.NameOf(&c.Call), c.UserID, c.AnonymousID, c.Source, c.ID,
		strings.Join(states, ", "), strings.Join(problems, "; "), strings.Join(violations, "; "), string(c.Body))
}

// Row returns the rejected call as a row of CSV.
func (r Rejected) Row() []string {
	return cells(timeCell(r.ReceivedAt), "", "rejected", r.Type, r.Title, r.UserID, r.AnonymousID, r.Source, r.MessageID, "", string(r.Code)+": "+r.Message, "", r.Body)
}

func timeCell(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(fields.TimeLayout)
}

// cells replaces control characters, so that each row is one line and cannot manipulate a terminal.
// Spreadsheets would evaluate a cell that begins like a formula: an apostrophe prevents that.
func cells(row ...string) []string {
	for i, s := range row {
		s = text.Plain(s)
		if strings.IndexAny(strings.TrimLeft(s, " \u00A0\u3000\uFFFD"), "=+-@＝＋－＠") == 0 {
			s = "'" + s
		}
		row[i] = s
	}
	return row
}
