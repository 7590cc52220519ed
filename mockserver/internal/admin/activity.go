package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Kinds of activity.
const (
	kindCall     = "call"     // accepted call
	kindAttempt  = "attempt"  // webhook request
	kindOutcome  = "outcome"  // delivery outcome
	kindRejected = "rejected" // rejected call
	kindRefused  = "refused"  // refused request
)

var activityKinds = []string{kindCall, kindAttempt, kindOutcome, kindRejected, kindRefused}

const (
	// maxWait limits the parameter wait, in seconds.
	maxWait = 60
	// gatherTime is the delay between a change and the next check. The history can receive
	// a delivery before the call itself.
	gatherTime = 25 * time.Millisecond
	// shownAnswer limits each string in an activity, in characters.
	shownAnswer = 200
)

// An activityView is an activity as the API returns it.
type activityView struct {
	Kind        string    `json:"kind"`
	At          time.Time `json:"at"`
	Ref         string    `json:"ref"` // ref for the call page, /calls/{ref}
	Source      string    `json:"source,omitempty"`
	MessageID   string    `json:"messageId,omitempty"`
	Type        string    `json:"type,omitempty"`
	Title       string    `json:"title,omitempty"`
	UserID      string    `json:"userId,omitempty"`
	AnonymousID string    `json:"anonymousId,omitempty"`

	// The following field is only set for calls.
	NotAsPlanned string `json:"notAsPlanned,omitempty"`

	// The following fields are only set for attempts and outcomes.
	Destination string           `json:"destination,omitempty"`
	Attempt     int              `json:"attempt,omitempty"`
	URL         string           `json:"url,omitempty"`
	Status      int              `json:"status,omitempty"`
	DurationMS  float64          `json:"durationMs,omitempty"`
	Verdict     *webhook.Verdict `json:"verdict,omitempty"`
	Error       string           `json:"error,omitempty"`
	Answer      string           `json:"answer,omitempty"` // first line of the response
	State       *tracking.State  `json:"state,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	RetryAt     time.Time        `json:"retryAt,omitzero"`
	Attempted   bool             `json:"attempted,omitempty"` // whether an attempt reports the same outcome

	// The following fields are only set for rejections and refusals.
	Code    tracking.Code `json:"code,omitempty"`
	Message string        `json:"message,omitempty"`
	Hint    string        `json:"hint,omitempty"`
	Field   string        `json:"field,omitempty"`
	Count   int           `json:"count,omitempty"` // number of grouped requests
}

// listActivity lists the activity after a position. If the parameter wait is set, it waits for
// new activity.
func (a *admin) listActivity(r *http.Request) (any, error) {
	q := newQuery(r)
	limit, wait, newest := defaultPage, 0, false
	var after, destination string
	var filter history.CallFilter
	q.int("limit", &limit, 1, maxPage)
	q.text("after", &after)
	q.int("wait", &wait, 0, maxWait)
	q.bool("newest", &newest)
	kinds := q.take("kind")
	q.oneOf("kind", kinds, activityKinds)
	q.text("destination", &destination)
	q.filter(&filter)
	if err := q.done(); err != nil {
		return nil, err
	}
	match := func(act *history.Activity) bool {
		return (len(kinds) == 0 || slices.Contains(kinds, kindOf(act))) &&
			(destination == "" || destination == destinationOf(act)) && filter.Matches(act.Item.Call())
	}
	found, err := a.awaitActivity(r.Context(), time.Duration(wait)*time.Second, after, func(after string) history.Activities {
		return a.c.History().Activities(after, limit, newest, match)
	})
	views := make([]activityView, 0, len(found.Activities))
	for i := range found.Activities {
		views = append(views, a.viewActivity(&found.Activities[i]))
	}
	slices.SortStableFunc(views, func(a, b activityView) int { return a.At.Compare(b.At) })
	return map[string]any{"activity": views, "next": found.Next, "skipped": found.Skipped}, err
}

// awaitActivity calls look until it finds activity, wait has passed or the collector drains.
func (a *admin) awaitActivity(ctx context.Context, wait time.Duration, after string, look func(after string) history.Activities) (history.Activities, error) {
	changed := a.c.History().Changed()
	found := look(after)
	if wait == 0 || after == "" || len(found.Activities) > 0 {
		return found, nil
	}
	end, err := a.beginWait()
	if err != nil {
		return found, err
	}
	defer end()
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		select {
		case <-changed:
			_ = pause.For(ctx, gatherTime)
		case <-over.C:
			return found, nil
		case <-ctx.Done():
			return found, nil
		case <-a.c.Drained():
			return found, nil
		}
		changed = a.c.History().Changed()
		skipped := found.Skipped
		found = look(found.Next)
		if found.Skipped += skipped; len(found.Activities) > 0 {
			return found, nil
		}
	}
}

func kindOf(act *history.Activity) string {
	switch {
	case act.Attempt != nil:
		return kindAttempt
	case act.Ended != nil:
		return kindOutcome
	case act.Item.Rejection != nil:
		return kindRejected
	case act.Item.Refusal != nil:
		return kindRefused
	}
	return kindCall
}

func destinationOf(act *history.Activity) string {
	switch {
	case act.Attempt != nil:
		return act.Attempt.Destination
	case act.Ended != nil:
		return act.Ended.Destination
	}
	return ""
}

func (a *admin) viewActivity(act *history.Activity) activityView {
	i := &act.Item
	c := i.Call()
	cut := func(s string) string { return text.Cut(shownAnswer, s) }
	v := activityView{
		Kind: kindOf(act), At: i.At(), Ref: a.c.History().RefOf(i), Source: c.Source, MessageID: c.ID, Type: c.Type,
		Title: cut(history.TitleOf(c)), UserID: cut(c.UserID), AnonymousID: cut(c.AnonymousID),
	}
	switch v.Kind {
	case kindCall:
		if len(c.Violations) > 0 {
			v.NotAsPlanned = c.Violations[0].Message
		}
	case kindAttempt:
		at := act.Attempt
		v.At, v.Destination, v.Attempt, v.URL, v.Status = at.Time.Add(at.Duration), at.Destination, at.Number, at.URL, at.Status
		v.DurationMS, v.Verdict, v.Error = float64(at.Duration)/float64(time.Millisecond), &at.Verdict, cut(at.Error)
		if at.Verdict != webhook.Success {
			v.Answer = sender.Message(at.ResponseBody)
		}
	case kindOutcome:
		e := act.Ended
		v.At, v.Destination, v.Attempt, v.State, v.Reason, v.RetryAt = e.At, e.Destination, e.Attempt, &e.State, cut(e.Reason), e.RetryAt
		v.Attempted = e.State != tracking.StateFiltered && slices.ContainsFunc(i.Record.Attempts, func(at tracking.Attempt) bool {
			return at.Destination == e.Destination && at.Number == e.Attempt
		})
	case kindRejected:
		j := i.Rejection
		v.Code, v.Message, v.Hint, v.Field = j.Code, j.Message, event.HintOf(j.Code), j.Field
	case kindRefused:
		f := i.Refusal
		v.Title = f.Method + " " + f.Path
		v.Code, v.Message, v.Hint, v.Status, v.Count = f.Code, f.Message, event.HintOf(f.Code), f.Status, f.Count
	}
	return v
}
