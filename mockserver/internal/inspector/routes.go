package inspector

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
)

// New returns the inspector of a collector.
func New(c *engine.Collector, config Config) *Inspector {
	in := &Inspector{
		c: c, endpoint: config.Endpoint,
		pages:  &page.Server{Guard: config.Guard, Sessions: access.Sessions{Guard: config.Guard, State: c.StateStore()}, Log: c.Logger()},
		routes: http.NewServeMux(), streams: make(chan struct{}, maxStreams),
	}
	in.life, in.end = context.WithCancel(context.Background())
	handlers := in.handlers()
	for pattern, handler := range handlers {
		in.routes.Handle(pattern, in.pages.RequireLogin(handler))
		if form, isForm := strings.CutPrefix(pattern, "POST "); isForm && handlers["GET "+form] == nil {
			in.routes.Handle("GET "+form, in.pages.RequireLogin(http.HandlerFunc(sendUp)))
		}
	}
	in.notFound = in.pages.RequireLogin(in.pages.Serve(showNotFound))
	in.routes.HandleFunc("GET /login", in.pages.ServeLogin)
	in.routes.HandleFunc("POST /login", in.pages.ServeLogin)
	in.routes.HandleFunc("GET /assets/{version}/{name}", page.ServeAsset)
	in.routes.HandleFunc("GET /favicon.ico", page.ServeIcon)
	return in
}

// handlers returns the handlers of pages and forms, by pattern. They require a login.
func (in *Inspector) handlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /{$}":                   in.pages.Serve(in.showCalls),
		"GET /stream":                in.serveStream,
		"GET /chart":                 in.serveChart,
		"GET /calls/{ref}":           in.pages.Serve(in.showCall),
		"GET /calls.csv":             in.serveCSV,
		"GET /calls.jsonl":           in.serveJSONLines,
		"GET /suggest":               in.pages.Serve(in.suggest),
		"GET /calls/{ref}/body":      in.serveCallBody,
		"GET /calls/{ref}/as/{form}": in.serveCopy,
		"POST /calls/{ref}/replay":   in.pages.ServeForm(in.replayCall),
		"GET /user":                  in.pages.Serve(in.showUser),
		"GET /compare":               in.pages.Serve(in.showComparison),
		"GET /events":                in.pages.Serve(in.showEvents),
		"GET /event":                 in.pages.Serve(in.showEvent),
		"POST /events/forget":        in.pages.ServeForm(in.deleteEvent),
		"GET /plans":                 in.pages.Serve(in.showPlans),
		"GET /replay":                in.pages.Serve(in.showReplay),
		"POST /replay":               in.pages.ServeForm(in.replayChosen),
		"GET /sources":               in.pages.Serve(in.showSources),
		"GET /sources/key":           in.serveWriteKey,
		"GET /destinations":          in.pages.Serve(in.showDestinations),
		"GET /destinations/new":      in.pages.Serve(in.showNewDestination),
		"GET /destination":           in.pages.Serve(in.showDestination),
		"POST /destinations/save":    in.pages.ServeForm(in.saveDestination),
		"POST /destinations/test":    in.pages.ServeForm(in.testDestination),
		"POST /destinations/preview": in.pages.ServeForm(in.previewDestination),
		"POST /destinations/pause":   in.pages.ServeForm(in.act("Destination paused.", in.c.Pause)),
		"POST /destinations/resume":  in.pages.ServeForm(in.act("Destination resumed.", in.c.Resume)),
		"POST /destinations/remove":  in.pages.ServeForm(in.removeDestination),
		"GET /problems":              in.pages.Serve(in.showProblems),
		"GET /problems/replay":       in.pages.Serve(in.showCauseReplay),
		"POST /problems/replay":      in.pages.ServeForm(in.replayCause),
		"GET /audiences":             in.pages.Serve(in.showAudiences),
		"POST /audiences/sync":       in.serveSync,
		"POST /audiences/forget":     in.pages.ServeForm(in.deleteComputation),
		"GET /deletions":             in.pages.Serve(in.showDeletions),
		"POST /deletions":            in.pages.ServeForm(in.makeDeletion),
		"GET /deletion":              in.pages.Serve(in.showDeletion),
		"GET /signatures":            in.pages.ServeForm(in.showSignatures),
		"POST /signatures":           in.pages.ServeForm(in.showSignatures),
		"POST /logout":               in.pages.ServeLogout,
	}
}

// sendUp redirects a GET request for the URL of a form to its parent page. Browsers send such
// a request if the user opens the URL of a rejected form again.
func sendUp(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, path.Dir(r.URL.EscapedPath()), http.StatusSeeOther)
}

func showNotFound(*http.Request) (page.Response, error) {
	return page.Problem(http.StatusNotFound, "Page not found", "This collector has no page at this address."), nil
}
