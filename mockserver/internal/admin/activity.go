package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var activityKinds = []string{export.KindCall, export.KindAttempt, export.KindOutcome, export.KindRejected, export.KindRefused}

const (
	// maxWait limits the parameter wait, in seconds.
	maxWait = 60
	// gatherTime is the delay between a change and the next check. The history can receive
	// a delivery before the call itself.
	gatherTime = 25 * time.Millisecond
	// shownAnswer limits each string in an activity, in characters.
	shownAnswer = 200
)

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
	views := make([]export.Activity, 0, len(found.Activities))
	for i := range found.Activities {
		views = append(views, a.viewActivity(&found.Activities[i]))
	}
	slices.SortStableFunc(views, func(a, b export.Activity) int { return a.At.Compare(b.At) })
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
		return export.KindAttempt
	case act.Ended != nil:
		return export.KindOutcome
	case act.Item.Rejection != nil:
		return export.KindRejected
	case act.Item.Refusal != nil:
		return export.KindRefused
	}
	return export.KindCall
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

func (a *admin) viewActivity(act *history.Activity) export.Activity {
	i := &act.Item
	c := i.Call()
	cut := func(s string) string { return text.Cut(shownAnswer, s) }
	v := export.Activity{
		Kind: kindOf(act), At: i.At(), Ref: a.c.History().RefOf(i), Source: c.Source, MessageID: c.ID, Type: c.Type,
		Title: cut(i.Title()), UserID: cut(c.UserID), AnonymousID: cut(c.AnonymousID),
	}
	switch v.Kind {
	case export.KindCall:
		if len(c.Violations) > 0 {
			v.NotAsPlanned = c.Violations[0].Message
		}
	case export.KindAttempt:
		at := act.Attempt
		v.At, v.Destination, v.Attempt, v.URL, v.Status = at.Time.Add(at.Duration), at.Destination, at.Number, at.URL, at.Status
		v.DurationMS, v.Verdict, v.Error = float64(at.Duration)/float64(time.Millisecond), at.Verdict.String(), cut(at.Error)
		if at.Verdict != webhook.Success {
			v.Answer = sender.Message(&at.Attempt)
		}
	case export.KindOutcome:
		e := act.Ended
		v.At, v.Destination, v.Attempt, v.State, v.Reason, v.RetryAt = e.At, e.Destination, e.Attempt, e.State.String(), cut(e.Reason), e.RetryAt
		v.Attempted = e.State != tracking.StateFiltered && slices.ContainsFunc(i.Record.Attempts, func(at tracking.Attempt) bool {
			return at.Destination == e.Destination && at.Number == e.Attempt
		})
	default:
		p := i.Problem()
		v.Code, v.Message, v.Hint, v.Field = p.Code, p.Message, event.HintOf(p.Code), p.Field
		if f := i.Refusal; f != nil {
			v.Status, v.Count = f.Status, f.Count
		}
	}
	return v
}
