package inspector

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// failedShown limits the failed calls on a destination page.
const failedShown = 6

// A destinationLine is a destination with its status. Ledger is not nil.
type destinationLine struct{ engine.DestinationOverview }

// Resumable reports whether delivery stays stopped until a user resumes it.
func (l *destinationLine) Resumable() bool {
	return !l.Disabled && l.Status.Paused || !l.Status.GoneSince.IsZero()
}

// Label returns the display text of the state.
func (l *destinationLine) Label() string { return page.Capitalize(string(l.Status.State)) }

func (in *Inspector) destinationLines(ctx context.Context, pick func(tracking.Destination) bool) ([]destinationLine, error) {
	overviews, err := in.c.Overviews(ctx, pick)
	var lines []destinationLine
	for _, d := range overviews {
		d.Ledger = cmp.Or(d.Ledger, &tracking.Ledger{Destination: d.Name})
		lines = append(lines, destinationLine{d})
	}
	return lines, err
}

// A destinationsPage lists the destinations and any storage problems.
type destinationsPage struct {
	Lines    []destinationLine
	Problems []string
}

func (in *Inspector) showDestinations(r *http.Request) (page.Response, error) {
	lines, err := in.destinationLines(r.Context(), func(tracking.Destination) bool { return true })
	p := destinationsPage{Lines: lines, Problems: in.storeProblems(r.Context())}
	return page.Response{Template: "destinations", Page: page.Page{Title: "Destinations", Nav: "destinations", Body: p}}.OrPart(r, "lines"), err
}

// storeProblems describes storage problems that need an operator.
func (in *Inspector) storeProblems(ctx context.Context) (all []string) {
	health, err := in.c.Health(ctx)
	if err != nil {
		all = append(all, "Cannot store calls: "+err.Error())
	}
	for _, d := range health.Scrub.Damage {
		all = append(all, "Corrupted: "+d)
	}
	for _, r := range health.Replicas {
		all = append(all, "Replica: "+r.String())
	}
	return all
}

// A destinationPage shows the status, the failed calls and the settings of a destination. A
// new destination has only the form.
type destinationPage struct {
	Line   *destinationLine // nil for a new destination
	Failed []failedLine
	Form   destinationForm
}

// HasMoreFailed reports whether there are failed calls that the page does not show.
func (p destinationPage) HasMoreFailed() bool { return p.Line.Ledger.Failed > int64(len(p.Failed)) }

// FailedLink returns the URL of the list of the destination's failed calls.
func (p destinationPage) FailedLink() string {
	filter := rows.By("destination", p.Form.Name)
	filter.Query = append(filter.Query, search.Term{Field: "status", Value: "failed"})
	return filter.Link("/")
}

// CallLink returns the URL of a call.
func (p destinationPage) CallLink(source, id string) string {
	return callLink(history.RefOfCall(source, id))
}

// A failedLine is a failed call of a destination.
type failedLine struct {
	rows.Row
	Reason   string
	FailedAt time.Time
	Tries    int
	Here     bool // whether the history still contains the call
}

func (in *Inspector) showNewDestination(r *http.Request) (page.Response, error) {
	form := in.newForm(tracking.Destination{Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{}}}})
	form.New = true
	return in.showForm(r, http.StatusOK, form)
}

func (in *Inspector) showDestination(r *http.Request) (page.Response, error) {
	d := in.c.Settings().Destination(r.URL.Query().Get("name"))
	if d == nil {
		return page.Problem(http.StatusNotFound, "Destination not found", "It may have been deleted."), nil
	}
	return in.showForm(r, http.StatusOK, in.newForm(*d))
}

// showForm shows a destination page with the given form.
func (in *Inspector) showForm(r *http.Request, status int, form destinationForm) (page.Response, error) {
	title, p := "New destination", destinationPage{Form: form}
	if !form.New {
		title = form.Name
		lines, err := in.destinationLines(r.Context(), settings.DestinationNamed(form.Name))
		if err == nil && len(lines) == 1 {
			p.Line = &lines[0]
			p.Failed, err = in.failedLines(r.Context(), form.Name)
		}
		if err != nil {
			return page.Response{}, err
		}
	}
	return page.Response{Template: "destination", Status: status, Page: page.Page{Title: title, Nav: "destinations", Body: p}}.OrPart(r, "status-block"), nil
}

// failedLines returns the oldest failed calls of a destination, which expire next.
func (in *Inspector) failedLines(ctx context.Context, destination string) ([]failedLine, error) {
	var lines []failedLine
	err := in.c.Failed(ctx, destination, false, func(f journal.FailedCall) bool {
		ref := history.RefOfCall(f.Call.Source, f.Call.ID)
		_, here := in.c.History().Item(ref)
		item := history.Item{Record: &tracking.Record{Call: f.Call}}
		lines = append(lines, failedLine{Row: rows.New(in.c.History(), &item, rows.Filter{}, nil), Reason: f.Reason, FailedAt: f.FailedAt, Tries: f.Attempts, Here: here})
		return len(lines) < failedShown
	})
	return lines, err
}

// saveDestination creates or updates a destination. It shows errors next to the fields.
func (in *Inspector) saveDestination(r *http.Request) (page.Response, error) {
	form := in.readDestinationForm(r.PostForm)
	var err error
	switch {
	case len(form.Errors) > 0:
	case form.New:
		err = in.c.AddDestination(r.Context(), form.Destination)
	default:
		err = in.c.ChangeDestination(r.Context(), form.Name, func(d *tracking.Destination) error {
			*d = form.over(*d)
			return nil
		})
	}
	if errors.Is(err, state.ErrExists) {
		form.fail("name", "is already in use: choose another name")
	}
	switch {
	case len(form.Errors) > 0:
		return in.showForm(r, http.StatusUnprocessableEntity, form)
	case err != nil:
		return page.Response{}, err
	}
	return page.SendTo(page.Link("/destination", "name", form.Name), "Destination saved.")
}

// testDestination sends a test call to the URLs in the form and shows the responses. It saves
// nothing.
func (in *Inspector) testDestination(r *http.Request) (page.Response, error) {
	form := in.readDestinationForm(r.PostForm)
	form.Errors = slices.DeleteFunc(form.Errors, func(p fieldProblem) bool { return p.Field == "name" }) // a test does not require a name
	if len(form.Errors) == 0 {
		form.sendTest(r.Context(), in.c)
	}
	if page.IsFragment(r) {
		return page.Response{Template: "destination", Part: "test", Page: page.Page{Body: form}}, nil
	}
	return in.showForm(r, http.StatusOK, form)
}

// previewDestination shows how many recent calls the form would deliver, and examples of their bodies.
func (in *Inspector) previewDestination(r *http.Request) (page.Response, error) {
	form := in.readDestinationForm(r.PostForm)
	form.Errors = slices.DeleteFunc(form.Errors, func(p fieldProblem) bool { // other settings do not affect the preview
		setting, _, _ := strings.Cut(p.Field, ".")
		return !slices.Contains([]string{"sources", "types", "events", "redact", "transform"}, setting)
	})
	if len(form.Errors) == 0 {
		preview := in.c.Preview(form.Destination)
		form.Preview = &preview
	}
	if page.IsFragment(r) {
		return page.Response{Template: "destination", Part: "preview", Page: page.Page{Body: form}}, nil
	}
	return in.showForm(r, http.StatusOK, form)
}

// act returns a form handler that calls do and then shows the notice done.
func (in *Inspector) act(done string, do func(ctx context.Context, name string) error) page.Handler {
	return func(r *http.Request) (page.Response, error) {
		name := r.PostForm.Get("name")
		if err := do(r.Context(), name); err != nil {
			return page.Response{}, err
		}
		return page.SendTo(page.Link("/destination", "name", name), done)
	}
}

func (in *Inspector) removeDestination(r *http.Request) (page.Response, error) {
	err := in.c.RemoveDestination(r.Context(), r.PostForm.Get("name"), r.PostForm.Get("discard") == "true")
	var pending *engine.PendingCallsError
	switch {
	case errors.As(err, &pending):
		return page.Problem(http.StatusConflict, "The destination has pending calls", "Wait until they are delivered, or go back and select “Also discard pending calls”."), nil
	case err != nil:
		return page.Response{}, err
	}
	return page.SendTo("/destinations", "Destination deleted.")
}

const (
	maxExample     = 4 << 10 // bytes of a body in an example
	maxDifferences = 50      // lines of an example
)

// A bodyExample is a recent call with the body that a form would send.
type bodyExample struct {
	Type, Title, Href string
	Body, Reason      string          // one of them is empty
	Failed            bool            // whether the call would fail, instead of being filtered
	Differences       []jsondiff.Line // from the body without redaction and transform, at most maxDifferences
	Total             int             // number of differences
}

// Examples returns the examples of the preview.
func (f destinationForm) Examples() []bodyExample {
	var all []bodyExample
	for _, e := range f.Preview.Examples {
		shown := bodyExample{
			Type: e.Call.Type, Title: text.Cut(rows.TextLimit, history.TitleOf(e.Call)), Reason: e.Reason, Failed: e.Failed,
			Href: callLink(history.RefOfCall(e.Call.Source, e.Call.ID)),
		}
		if e.Body != nil {
			shown.Body = text.Cut(maxExample, page.Indented(e.Body))
			if d, err := jsondiff.ComparePaths(e.Input, e.Body); err == nil {
				shown.Total, shown.Differences = d.Differing, d.Changes(maxDifferences)
			}
		}
		all = append(all, shown)
	}
	return all
}
