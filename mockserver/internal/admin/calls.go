package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func (a *admin) getHealth(r *http.Request) (any, error) {
	health, err := a.c.Health(r.Context())
	if err == nil {
		err = a.c.Ready(r.Context())
	}
	view := struct {
		Status    string         `json:"status"`
		Message   string         `json:"message,omitempty"`
		Version   string         `json:"version"`
		Journal   journal.Health `json:"journal"`
		Forgotten int64          `json:"forgotten"`
	}{"ready", "", a.version, health, a.c.History().Expired()}
	if err != nil {
		view.Status, view.Message = "unavailable", err.Error()
	}
	return view, nil
}

// getLedger returns the ledgers. If the parameter verify is set, it also counts the stored
// calls and compares the numbers.
func (a *admin) getLedger(r *http.Request) (any, error) {
	q, verify := newQuery(r), false
	q.bool("verify", &verify)
	if err := q.done(); err != nil {
		return nil, err
	}
	accounts, err := a.accounts(r.Context(), verify)
	if err != nil {
		return nil, err
	}
	type line struct {
		journal.Verification
		Holds bool `json:"holds"`
	}
	holds, lines := true, []line{}
	for _, v := range accounts {
		lines = append(lines, line{v, v.OK()})
		holds = holds && v.OK()
	}
	answer := map[string]any{"holds": holds, "destinations": lines}
	if verify {
		if answer["lists"], err = a.c.Users().Lost(r.Context()); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (a *admin) accounts(ctx context.Context, verify bool) ([]journal.Verification, error) {
	if verify {
		return a.c.Verify(ctx)
	}
	ledgers, err := a.c.Ledger(ctx)
	var all []journal.Verification
	for _, l := range ledgers {
		all = append(all, journal.Verification{Ledger: l})
	}
	return all, err
}

// A callView is a call as the API returns it.
type callView struct {
	Seq int64  `json:"seq"`
	Ref string `json:"ref"` // ref for the call page, /calls/{ref}
	tracking.Call
	Repeats      int             `json:"repeats"`
	RetryCount   int             `json:"retryCount"`
	Attempts     int             `json:"attempts"`
	Destinations []callState     `json:"destinations"`
	Synthetic    bool            `json:"synthetic"`      // whether the collector sent the call
	Body         json.RawMessage `json:"body,omitempty"` // set for a single call, and in lists on request
}

// A callState is the state of a call at a destination.
type callState struct {
	Destination string         `json:"destination"`
	State       tracking.State `json:"state"`
	Reason      string         `json:"reason,omitempty"`
	At          time.Time      `json:"at"`
	Attempt     int            `json:"attempt"`
	RetryAt     time.Time      `json:"retryAt,omitzero"`
}

func viewCall(r *tracking.Record, destinations []engine.AttachedDestination) callView {
	v := callView{
		Seq: r.Seq, Ref: history.RefOfCall(r.Call.Source, r.Call.ID), Call: r.Call, Repeats: r.Repeats, RetryCount: r.RetryCount, Attempts: len(r.Attempts),
		Destinations: []callState{}, Synthetic: history.IsSynthetic(&r.Call),
	}
	for _, e := range latest(r, destinations) {
		v.Destinations = append(v.Destinations, callState{e.Destination, e.State, e.Reason, e.At, e.Attempt, e.RetryAt})
	}
	return v
}

// latest returns the latest outcome of a call at each destination, sorted by name. A destination
// without an outcome is pending since the call was received, unless its outcome may have expired.
func latest(r *tracking.Record, destinations []engine.AttachedDestination) []tracking.Ended {
	var all []tracking.Ended
	add := func(e tracking.Ended) {
		at, found := slices.BinarySearchFunc(all, e.Destination, func(e tracking.Ended, name string) int { return strings.Compare(e.Destination, name) })
		if !found {
			all = slices.Insert(all, at, e)
		}
	}
	for _, e := range slices.Backward(r.Ends) {
		add(e)
	}
	for _, d := range destinations {
		if !r.Partial && d.Gets(&r.Call) {
			add(tracking.Ended{Destination: d.Name, At: r.Call.ReceivedAt, Outcome: tracking.Outcome{State: tracking.StatePending}})
		}
	}
	return all
}

func (a *admin) listCalls(r *http.Request) (any, error) {
	q := newQuery(r)
	limit, before, filter := defaultPage, int64(0), history.CallFilter{}
	var destination, state string
	q.page(&limit, &before)
	q.acceptedFilter(&filter)
	q.text("destination", &destination)
	wanted := q.state(&state)
	synthetic, all := false, !r.URL.Query().Has("synthetic")
	q.bool("synthetic", &synthetic)
	bodies := false
	q.bool("bodies", &bodies)
	if err := q.done(); err != nil {
		return nil, err
	}
	destinations := a.c.Attached()
	page, more := a.c.History().Page(before, limit, func(r *tracking.Record) bool {
		return filter.Matches(&r.Call) && (all || history.IsSynthetic(&r.Call) == synthetic) && (destination == "" && state == "" || slices.ContainsFunc(latest(r, destinations), func(e tracking.Ended) bool {
			return (destination == "" || e.Destination == destination) && (state == "" || e.State == wanted)
		}))
	})
	answer := struct {
		Calls     []callView `json:"calls"`
		Next      int64      `json:"next,omitempty"` // value of the parameter before for the next page
		Forgotten int64      `json:"forgotten"`
	}{Calls: []callView{}, Forgotten: a.c.History().Expired()}
	for i := range page {
		view := viewCall(&page[i], destinations)
		if bodies {
			view.Body = page[i].Call.Body
		}
		answer.Calls = append(answer.Calls, view)
	}
	if more {
		answer.Next = page[len(page)-1].Seq
	}
	return answer, nil
}

func (a *admin) record(r *http.Request) (tracking.Record, error) {
	source, id := r.PathValue("source"), r.PathValue("messageId")
	record, ok := a.c.History().Find(source, id)
	if !ok {
		return tracking.Record{}, fmt.Errorf("%w: no call %s of source %s is retained", state.ErrUnknown, text.Quote(maxName, id), text.Quote(maxName, source))
	}
	return record, nil
}

func (a *admin) getCall(r *http.Request) (any, error) {
	record, err := a.record(r)
	if err != nil {
		return nil, err
	}
	view := viewCall(&record, a.c.Attached())
	view.Body = record.Call.Body
	return view, nil
}

// An attemptView is an attempt as the API returns it. Invalid UTF-8 in bodies is replaced.
type attemptView struct {
	Destination    string          `json:"destination"`
	Number         int             `json:"number"`
	Time           time.Time       `json:"time"`
	DurationMS     float64         `json:"durationMs"`
	URL            string          `json:"url"`
	Status         int             `json:"status,omitempty"` // 0 if there was no response
	Verdict        webhook.Verdict `json:"verdict"`
	Reason         webhook.Reason  `json:"reason,omitempty"`
	Error          string          `json:"error,omitempty"`
	RequestHeader  http.Header     `json:"requestHeader,omitempty"`
	RequestBody    string          `json:"requestBody,omitempty"`
	ResponseHeader http.Header     `json:"responseHeader,omitempty"`
	ResponseBody   string          `json:"responseBody,omitempty"`
}

func (a *admin) listAttempts(r *http.Request) (any, error) {
	record, err := a.record(r)
	if err != nil {
		return nil, err
	}
	attempts := slices.Clone(record.Attempts)
	slices.SortStableFunc(attempts, func(a, b tracking.Attempt) int {
		return cmp.Or(strings.Compare(a.Destination, b.Destination), a.Time.Compare(b.Time))
	})
	return map[string]any{"attempts": viewAttempts(attempts)}, nil
}

func viewAttempts(attempts []tracking.Attempt) []attemptView {
	views := []attemptView{}
	for _, at := range attempts {
		header := maps.Clone(at.RequestHeader)
		for name := range header {
			if engine.SecretHeader(name) {
				header[name] = []string{engine.Hidden}
			}
		}
		views = append(views, attemptView{
			Destination: at.Destination, Number: at.Number, Time: at.Time, DurationMS: float64(at.Duration) / float64(time.Millisecond),
			URL: at.URL, Status: at.Status, Verdict: at.Verdict, Reason: at.Reason, Error: at.Error,
			RequestHeader: header, RequestBody: strings.ToValidUTF8(string(at.RequestBody), "\uFFFD"),
			ResponseHeader: at.ResponseHeader, ResponseBody: strings.ToValidUTF8(string(at.ResponseBody), "\uFFFD"),
		})
	}
	return views
}

// listFailed lists the failed or quarantined calls of a destination, oldest first.
func (a *admin) listFailed(r *http.Request) (any, error) {
	type failedView struct {
		callView
		Reason   string    `json:"reason"`
		FailedAt time.Time `json:"failedAt"`
	}
	q := newQuery(r)
	limit, filter := defaultPage, history.CallFilter{}
	q.int("limit", &limit, 1, maxPage)
	q.acceptedFilter(&filter)
	state, list := "", a.c.Failed
	switch q.state(&state); state {
	case "", "failed":
	case "filtered":
		list = a.c.Quarantined
	default:
		q.fail("state", state, "use failed or filtered")
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	views, more := []failedView{}, false
	err := list(r.Context(), r.PathValue("destination"), func(f journal.FailedCall) bool {
		if !filter.Matches(&f.Call) {
			return true
		}
		if more = len(views) == limit; more {
			return false
		}
		view := failedView{viewCall(&tracking.Record{Call: f.Call}, nil), f.Reason, f.FailedAt}
		view.Attempts = f.Attempts
		views = append(views, view)
		return true
	})
	return map[string]any{"calls": views, "more": more}, err
}

// A rejectionView is a rejected call as the API returns it.
type rejectionView struct {
	tracking.Rejection
	// The following fields are set if the call could be parsed.
	MessageID   string `json:"messageId,omitempty"`
	Title       string `json:"title,omitempty"`
	UserID      string `json:"userId,omitempty"`
	AnonymousID string `json:"anonymousId,omitempty"`

	Hint string `json:"hint,omitempty"`
	Ref  string `json:"ref"` // ref for the call page, /calls/{ref}
	Body string `json:"body,omitempty"`
}

// listRejections lists rejected calls and refused requests, newest first. It filters refused
// requests only by source and time.
func (a *admin) listRejections(r *http.Request) (any, error) {
	type refusalView struct {
		event.Refusal
		Ref  string `json:"ref"` // ref for the call page, /calls/{ref}
		Hint string `json:"hint,omitempty"`
		Body string `json:"body,omitempty"`
	}
	q := newQuery(r)
	limit, filter := defaultPage, history.CallFilter{}
	q.int("limit", &limit, 1, maxPage)
	q.filter(&filter)
	if err := q.done(); err != nil {
		return nil, err
	}
	calls, requests := []rejectionView{}, []refusalView{}
	h := a.c.History()
	end, _ := h.End()
	h.Scan(end.Order+1, func(i *history.Item) bool {
		switch {
		case i.Rejection != nil && len(calls) < limit && filter.Matches(i.Read):
			c := i.Read
			calls = append(calls, rejectionView{
				*i.Rejection, c.ID, history.TitleOf(c), c.UserID, c.AnonymousID,
				event.HintOf(i.Rejection.Code), h.RefOf(i), strings.ToValidUTF8(string(i.Rejection.Body), "\uFFFD"),
			})
		case i.Refusal != nil && len(requests) < limit && filter.Matches(&tracking.Call{Source: i.Refusal.Source, ReceivedAt: i.Refusal.At}):
			requests = append(requests, refusalView{*i.Refusal, h.RefOf(i), event.HintOf(i.Refusal.Code), strings.ToValidUTF8(string(i.Refusal.Body), "\uFFFD")})
		}
		return len(calls) < limit || len(requests) < limit
	})
	return map[string]any{"calls": calls, "requests": requests, "since": h.RejectedSince().UTC()}, nil
}

func (a *admin) getProblems(*http.Request) (any, error) { return a.c.Problems(), nil }
