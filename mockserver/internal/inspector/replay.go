package inspector

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// replayable are the states of calls that can be replayed.
var replayable = []tracking.State{tracking.StateFailed, tracking.StateDelivered, tracking.StateFiltered}

// A replayPage is the confirmation page for a replay.
type replayPage struct {
	Filter       rows.Filter
	Back         string // URL of the page that links here
	Only         string // selected destination; empty for all
	UpTo         int64  // order of the newest item; later items are excluded
	RenderedAt   string // RFC 3339 time
	Matched      int
	Destinations []replayChoice
	Nothing      bool
}

// A replayChoice lists the replayable calls of a destination.
type replayChoice struct {
	Name    string
	States  []replayState
	Waiting int // number of pending calls
}

type replayState struct {
	State   string
	Calls   int
	Checked bool
}

// picked contains the keys of the matching calls for each standing.
type picked map[standing]map[event.Key]bool

// A standing is a delivery state at a destination.
type standing struct {
	destination string
	state       tracking.State
}

// pick returns the calls up to an order that match the filter.
func (in *Inspector) pick(filter rows.Filter, upTo int64) (found picked, matched int) {
	destinations := in.c.Attached()
	match := filter.Matcher(destinations)
	found = picked{}
	in.c.History().Scan(upTo+1, func(i *history.Item) bool {
		if i.Record == nil || !match(i) {
			return true
		}
		matched++
		for _, s := range rows.StatesOf(i.Record, destinations) {
			if s.Unknown {
				continue // the history does not know the state
			}
			at := standing{s.Destination, s.State}
			if found[at] == nil {
				found[at] = map[event.Key]bool{}
			}
			found[at][event.KeyOf(i.Record.Call.Source, i.Record.Call.ID)] = true
		}
		return true
	})
	return found, matched
}

// showReplay shows the confirmation page.
func (in *Inspector) showReplay(r *http.Request) (page.Response, error) {
	in.c.AwaitRestored(r.Context()) // restored items can have any order
	q, now := r.URL.Query(), time.Now().UTC()
	end, _ := in.c.History().End()
	p := replayPage{Filter: rows.ReadFilter(q).Fixed(now), Only: q.Get("destination"), UpTo: end.Order, RenderedAt: now.Format(time.RFC3339Nano)}
	p.Back = rows.ReadFilter(q).Link("/")
	if p.Only != "" {
		p.Back = page.Link("/destination", "name", p.Only)
	}
	found, matched := in.pick(p.Filter, p.UpTo)
	p.Matched = matched
	for _, d := range in.c.Settings().Destinations {
		if p.Only != "" && p.Only != d.Name {
			continue
		}
		choice := replayChoice{Name: d.Name, Waiting: len(found[standing{d.Name, tracking.StatePending}])}
		for _, state := range replayable {
			n := len(found[standing{d.Name, state}])
			if p.Only != "" && state == tracking.StateFailed && p.Filter.Empty() {
				var err error // the journal retains failed calls longer than the history
				if n, err = in.c.Replay(r.Context(), d.Name, engine.Selection{State: state, EndedBefore: now, DryRun: true}); err != nil {
					return page.Response{}, err
				}
			}
			if n > 0 {
				choice.States = append(choice.States, replayState{state.String(), n, state == tracking.StateFailed})
			}
		}
		if len(choice.States) > 0 || choice.Waiting > 0 {
			p.Destinations = append(p.Destinations, choice)
		}
	}
	p.Nothing = !slices.ContainsFunc(p.Destinations, func(c replayChoice) bool { return len(c.States) > 0 })
	return page.Response{Template: "replay", Page: page.Page{Title: "Replay", Nav: "calls", Body: p}}, nil
}

// replayChosen replays the calls of the selected choices. A choice is a state and a
// destination, such as failed:hook.
func (in *Inspector) replayChosen(r *http.Request) (page.Response, error) {
	filter, only := rows.ReadFilter(r.PostForm), r.PostForm.Get("destination")
	upTo, err := strconv.ParseInt(r.PostForm.Get("upTo"), 10, 64)
	renderedAt, wrong := time.Parse(time.RFC3339Nano, r.PostForm.Get("renderedAt"))
	if err != nil || wrong != nil {
		return page.Response{}, access.Errorf(http.StatusBadRequest, "invalid", "the form lacks upTo or renderedAt; reload the page")
	}
	found, _ := in.pick(filter, upTo)
	replayed := 0
	for _, choice := range r.PostForm["pick"] {
		destination, sel, err := found.selection(choice, only != "" && filter.Empty())
		if err != nil {
			return page.Response{}, err
		}
		sel.EndedBefore = renderedAt // a form that is submitted twice replays each call once
		n, err := in.c.Replay(r.Context(), destination, sel)
		if err != nil {
			return page.Response{}, err
		}
		replayed += n
	}
	target := filter.Link("/")
	if only != "" {
		target = page.Link("/destination", "name", only)
	}
	return page.SendTo(target, replayedText(replayed)+".")
}

// selection parses a choice. With allFailed, failed calls come from the journal, which
// retains them longer than the history.
func (p picked) selection(choice string, allFailed bool) (destination string, sel engine.Selection, err error) {
	name, destination, _ := strings.Cut(choice, ":")
	var state tracking.State
	if err := state.UnmarshalText([]byte(name)); err != nil || state == tracking.StatePending {
		return "", sel, access.Errorf(http.StatusBadRequest, "invalid", "unknown state %.40q", name)
	}
	sel.State = state
	if allFailed && state == tracking.StateFailed {
		return destination, sel, nil
	}
	only := p[standing{destination, state}]
	if only == nil {
		only = map[event.Key]bool{}
	}
	sel.PickOnly(only)
	return destination, sel, nil
}

func (in *Inspector) replayCall(r *http.Request) (page.Response, error) {
	ref, filter, destination := r.PathValue("ref"), rows.ReadFilter(r.PostForm), r.PostForm.Get("destination")
	i, ok := in.c.History().Item(ref)
	switch {
	case ok && i.Record != nil:
	case page.IsFragment(r):
		return in.showPanel(ref, filter, "", nil), nil
	default:
		return page.Problem(http.StatusNotFound, "This call has expired", "Failed calls are retained longer: replay them from the destination page."), nil
	}
	n, err := in.c.ReplayCall(r.Context(), destination, i.Record.Call.Source, i.Record.Call.ID, false)
	if err != nil {
		if refused := access.ErrorOf(err); page.IsFragment(r) && refused.Status < http.StatusInternalServerError {
			return in.showPanel(ref, filter, "", refused), nil
		}
		return page.Response{}, err
	}
	done := replayedText(n) + " to " + destination + "."
	if page.IsFragment(r) {
		return in.showPanel(ref, filter, done, nil), nil
	}
	return page.SendTo(filter.Link("/", "call", ref), done)
}

func replayedText(n int) string { return "Replaying " + text.Plural(n, "call", "calls") }

// A causeReplay is the confirmation page for a replay of failed calls.
type causeReplay struct {
	Destination string
	Cause       string // empty for any cause
	Until       string // RFC 3339 time; later failures are not replayed
	Hour        int    // number of calls that failed in the last hour
	All         int    // number of all failed calls
	Paused      bool
}

// showCauseReplay shows the confirmation page.
func (in *Inspector) showCauseReplay(r *http.Request) (page.Response, error) {
	q := causeReplay{Destination: r.URL.Query().Get("destination"), Cause: r.URL.Query().Get("cause")}
	d := in.c.Settings().Destination(q.Destination)
	if d == nil {
		return page.Problem(http.StatusNotFound, "Destination not found", "It may have been deleted."), nil
	}
	q.Paused = d.Paused
	until := time.Now().UTC()
	q.Until = until.Format(time.RFC3339Nano)
	sel := engine.Selection{Cause: q.Cause, FailedUntil: until, DryRun: true}
	var err error
	if q.All, err = in.c.Replay(r.Context(), q.Destination, sel); err != nil {
		return page.Response{}, err
	}
	sel.FailedSince = until.Add(-time.Hour)
	if q.Hour, err = in.c.Replay(r.Context(), q.Destination, sel); err != nil {
		return page.Response{}, err
	}
	return page.Response{Template: "problemreplay", Page: page.Page{Title: "Replay", Nav: "problems", Body: q}}, nil
}

// replayCause starts a replay in the background.
func (in *Inspector) replayCause(r *http.Request) (page.Response, error) {
	destination, choice := r.PostForm.Get("destination"), r.PostForm.Get("choice")
	until, err := time.Parse(time.RFC3339Nano, r.PostForm.Get("until"))
	expected, wrong := strconv.Atoi(r.PostForm.Get(choice))
	if err != nil || wrong != nil || choice != "hour" && choice != "all" {
		return page.Response{}, access.Errorf(http.StatusBadRequest, "invalid", "the form lacks choice, count or until; reload the page")
	}
	sel := engine.Selection{Cause: r.PostForm.Get("cause"), FailedUntil: until}
	if choice == "hour" {
		sel.FailedSince = until.Add(-time.Hour)
	}
	_, err = in.c.StartReplay(destination, sel, expected)
	switch {
	case errors.Is(err, engine.ErrReplaying):
		return page.Problem(http.StatusConflict, "Replay in progress", fmt.Sprintf("Calls are being replayed to %s. Wait until the replay has queued all of them.", destination)), nil
	case err != nil:
		return page.Response{}, err
	}
	return page.SendTo("/problems", replayedText(expected)+" to "+destination+".")
}
