package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func (a *admin) getHealth(r *http.Request) (any, error) {
	health, err := a.c.Health(r.Context())
	if err == nil {
		err = a.c.Ready(r.Context())
	}
	view := export.Health{Status: "ready", Version: a.version, Journal: health, Forgotten: a.c.History().Expired()}
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
	proofs := export.NewProofs(accounts)
	if verify {
		proofs.Lists, err = a.c.Users().Lost(r.Context())
	}
	return proofs, err
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
		return filter.Matches(&r.Call) && (all || history.IsSynthetic(&r.Call) == synthetic) && (destination == "" && state == "" || slices.ContainsFunc(export.Latest(r, destinations), func(e tracking.Ended) bool {
			return (destination == "" || e.Destination == destination) && (state == "" || e.State == wanted)
		}))
	})
	response := struct {
		Calls     []export.Call `json:"calls"`
		Next      int64         `json:"next,omitempty"` // value of the parameter before for the next page
		Forgotten int64         `json:"forgotten"`
	}{Calls: []export.Call{}, Forgotten: a.c.History().Expired()}
	for i := range page {
		view := export.NewCall(&page[i], destinations)
		if bodies {
			view.Body = page[i].Call.Body
		}
		response.Calls = append(response.Calls, view)
	}
	if more {
		response.Next = page[len(page)-1].Seq
	}
	return response, nil
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
	view := export.NewCall(&record, a.c.Attached())
	view.Body = record.Call.Body
	return view, nil
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
	return export.NewAttempts(attempts), nil
}

// listFailed lists the failed or quarantined calls of a destination, oldest first.
func (a *admin) listFailed(r *http.Request) (any, error) {
	type failedView struct {
		export.Call
		Reason   string    `json:"reason"`
		FailedAt time.Time `json:"failedAt"`
	}
	q := newQuery(r)
	limit, filter := defaultPage, history.CallFilter{}
	q.int("limit", &limit, 1, maxPage)
	q.acceptedFilter(&filter)
	var state string
	q.text("state", &state)
	q.oneOf("state", []string{cmp.Or(state, "failed")}, []string{"failed", "filtered"})
	if err := q.done(); err != nil {
		return nil, err
	}
	views, more := []failedView{}, false
	err := a.c.Failed(r.Context(), r.PathValue("destination"), state == "filtered", func(f journal.FailedCall) bool {
		if !filter.Matches(&f.Call) {
			return true
		}
		if more = len(views) == limit; more {
			return false
		}
		view := failedView{export.NewCall(&tracking.Record{Call: f.Call}, nil), f.Reason, f.FailedAt}
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

// listRejections lists rejected calls and refused requests, newest first. A refused request has only a
// source and a time, so other filters exclude it.
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
	h.Scan(history.Newest, func(i *history.Item) bool {
		switch {
		case i.Rejection != nil && len(calls) < limit && filter.Matches(i.Read):
			c := i.Read
			calls = append(calls, rejectionView{
				*i.Rejection, c.ID, history.TitleOf(c), c.UserID, c.AnonymousID,
				event.HintOf(i.Rejection.Code), h.RefOf(i), text.Valid(i.Rejection.Body),
			})
		case i.Refusal != nil && len(requests) < limit && filter.Matches(i.Call()):
			requests = append(requests, refusalView{*i.Refusal, h.RefOf(i), event.HintOf(i.Refusal.Code), text.Valid(i.Refusal.Body)})
		}
		return len(calls) < limit || len(requests) < limit
	})
	return map[string]any{"calls": calls, "requests": requests, "since": h.RejectedSince().UTC()}, nil
}

func (a *admin) getProblems(*http.Request) (any, error) { return a.c.Problems(), nil }
