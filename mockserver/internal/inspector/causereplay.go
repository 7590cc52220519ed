package inspector

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

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
func (in *Inspector) showCauseReplay(r *http.Request) (page.Answer, error) {
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
		return page.Answer{}, err
	}
	sel.FailedSince = until.Add(-time.Hour)
	if q.Hour, err = in.c.Replay(r.Context(), q.Destination, sel); err != nil {
		return page.Answer{}, err
	}
	return page.Answer{Template: "problemreplay", Page: page.Page{Title: "Replay", Nav: "problems", Body: q}}, nil
}

// replayCause starts a replay in the background.
func (in *Inspector) replayCause(r *http.Request) (page.Answer, error) {
	destination, choice := r.PostForm.Get("destination"), r.PostForm.Get("choice")
	until, err := time.Parse(time.RFC3339Nano, r.PostForm.Get("until"))
	expected, wrong := strconv.Atoi(r.PostForm.Get(choice))
	if err != nil || wrong != nil || choice != "hour" && choice != "all" {
		return page.Answer{}, access.Errorf(http.StatusBadRequest, "invalid", "the form lacks choice, count or until; reload the page")
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
		return page.Answer{}, err
	}
	return page.SendTo("/problems", "Replaying "+text.Plural(expected, "call", "calls")+" to "+destination+".")
}
