package inspector

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// failedShown is how many failed calls the page of a destination shows.
const failedShown = 6

// A destinationLine is a destination, without its secrets, and how it is doing.
type destinationLine struct {
	Name     string
	Webhooks []webhook.Endpoint
	Enabled  bool
	ReadOnly bool // the configuration defines it
	Status   engine.DestinationStatus
	Ledger   *tracking.Ledger
	Now      time.Time
}

// Label is the state for people.
func (l *destinationLine) Label() string {
	if l.Status.State == engine.DestinationIdle {
		return "Nothing yet"
	}
	return capitalize(string(l.Status.State))
}

func (in *Inspector) destinationLines(ctx context.Context, pick func(tracking.Destination) bool) ([]destinationLine, error) {
	overviews, err := in.c.Overviews(ctx, pick)
	var lines []destinationLine
	for _, d := range overviews {
		lines = append(lines, destinationLine{
			Name: d.Name, Webhooks: engine.HideHeaders(d.Webhooks), Enabled: !d.Disabled, ReadOnly: d.ReadOnly,
			Status: d.Status, Ledger: cmp.Or(d.Ledger, &tracking.Ledger{Destination: d.Name}), Now: time.Now(),
		})
	}
	return lines, err
}

func (in *Inspector) serveDestinations(w http.ResponseWriter, r *http.Request) {
	lines, err := in.destinationLines(r.Context(), func(tracking.Destination) bool { return true })
	if err != nil {
		in.renderError(w, err)
		return
	}
	if isFragment(r) {
		in.renderBlock(w, http.StatusOK, "destinations", "lines", lines)
		return
	}
	in.render(w, http.StatusOK, "destinations", page{Title: "Destinations", Nav: "destinations", Notice: in.notice(r), Body: lines})
}

// A destinationPage is one destination: how it is doing, what it has given up,
// and its settings. For a new one there is only the form.
type destinationPage struct {
	Line   *destinationLine // nil for a new one
	Failed []failedLine
	Form   destinationForm
}

// HasMoreFailed reports whether calls have failed that the page does not show.
func (p destinationPage) HasMoreFailed() bool { return p.Line.Ledger.Failed > int64(len(p.Failed)) }

// A failedLine is a call that a destination has given up.
type failedLine struct {
	row
	Reason   string
	FailedAt time.Time
	Tries    int
	Here     bool // the History remembers it
}

func (in *Inspector) serveNewDestination(w http.ResponseWriter, _ *http.Request) {
	form := in.newForm(tracking.Destination{Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{}}}})
	form.New = true
	in.render(w, http.StatusOK, "destination", page{Title: "New destination", Nav: "destinations", Body: destinationPage{Form: form}})
}

func (in *Inspector) serveDestination(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	i := slices.IndexFunc(in.c.Settings().Destinations, settings.DestinationNamed(name))
	if i < 0 {
		in.renderProblem(w, http.StatusNotFound, "There is no such destination", "It may have been removed meanwhile.")
		return
	}
	p := destinationPage{Form: in.newForm(in.c.Settings().Destinations[i])}
	in.showDestination(w, r, http.StatusOK, p, in.notice(r))
}

// showDestination answers with the page of a destination that exists, or of a
// form for a new one.
func (in *Inspector) showDestination(w http.ResponseWriter, r *http.Request, status int, p destinationPage, notice string) {
	title := "New destination"
	if !p.Form.New {
		title = p.Form.Name
		lines, err := in.destinationLines(r.Context(), settings.DestinationNamed(p.Form.Name))
		if err == nil && len(lines) == 1 {
			p.Line = &lines[0]
			p.Failed, err = in.failedLines(r.Context(), p.Form.Name)
		}
		if err != nil {
			in.renderError(w, err)
			return
		}
	}
	if isFragment(r) {
		in.renderBlock(w, status, "destination", "status-block", p)
		return
	}
	in.render(w, status, "destination", page{Title: title, Nav: "destinations", Notice: notice, Body: p})
}

// failedLines returns the failed calls of a destination that are the oldest: they
// are the next to be forgotten.
func (in *Inspector) failedLines(ctx context.Context, destination string) ([]failedLine, error) {
	var lines []failedLine
	err := in.c.Failed(ctx, destination, func(f journal.FailedCall) bool {
		ref := history.RefOfCall(f.Call.Source, f.Call.ID)
		_, here := in.c.History().Item(ref)
		item := history.Item{Record: &tracking.Record{Call: f.Call}}
		lines = append(lines, failedLine{row: in.newRow(&item, callFilter{}, nil), Reason: f.Reason, FailedAt: f.FailedAt, Tries: f.Attempts, Here: here})
		return len(lines) < failedShown
	})
	return lines, err
}

// serveSaveDestination makes a destination or changes one, or shows what is wrong
// beside each field.
func (in *Inspector) serveSaveDestination(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	form := in.readDestinationForm(r.PostForm)
	err := form.problem()
	switch {
	case err != nil:
	case form.New:
		err = in.c.AddDestination(r.Context(), form.destination)
	default:
		err = in.c.ChangeDestination(r.Context(), form.Name, func(d *tracking.Destination) error {
			*d = form.over(*d)
			return nil
		})
	}
	switch {
	case err == nil:
		in.redirectTo(w, r, callFilter{}.Link("/destination", "name", form.Name), "The destination is saved.")
	case errors.Is(err, state.ErrExists):
		form.fail("name", "is taken: give each destination a name of its own")
		in.showDestination(w, r, http.StatusUnprocessableEntity, destinationPage{Form: form}, "")
	case len(form.Errors) > 0:
		in.showDestination(w, r, http.StatusUnprocessableEntity, destinationPage{Form: form}, "")
	default:
		in.renderError(w, err)
	}
}

// serveTestDestination sends a test call to the URLs of a form, as it stands and
// without saving it, and shows what each receiver answered.
func (in *Inspector) serveTestDestination(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	form := in.readDestinationForm(r.PostForm)
	form.Name = cmp.Or(form.Name, "test") // it need not have one yet
	form.clear("name")
	if form.problem() == nil {
		form.Test = in.sendTest(r.Context(), form.destination, form.TestType)
	}
	if isFragment(r) {
		in.renderBlock(w, http.StatusOK, "destination", "test", form)
		return
	}
	form.Name = r.PostForm.Get("name")
	in.showDestination(w, r, http.StatusOK, destinationPage{Form: form}, "")
}

// act returns a handler of a button on the page of a destination. done says what it
// did.
func (in *Inspector) act(done string, do func(ctx context.Context, name string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !readForm(w, r) {
			return
		}
		name := r.PostForm.Get("name")
		if err := do(r.Context(), name); err != nil {
			in.renderError(w, err)
			return
		}
		in.redirectTo(w, r, callFilter{}.Link("/destination", "name", name), done)
	}
}

func (in *Inspector) serveRemoveDestination(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	remove := in.c.RemoveDrained
	if r.PostForm.Get("discard") == "true" {
		remove = in.c.RemoveDestination
	}
	err := remove(r.Context(), r.PostForm.Get("name"))
	var pending *engine.PendingCallsError
	switch {
	case errors.As(err, &pending):
		in.renderProblem(w, http.StatusConflict, "It has pending calls", "Wait for them, or go back and say that they may be thrown away.")
	case err != nil:
		in.renderError(w, err)
	default:
		in.redirectTo(w, r, "/destinations", "The destination is removed.")
	}
}
