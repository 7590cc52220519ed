package inspector

import (
	"context"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// New returns the inspector of a collector.
func New(c *engine.Collector, config Config) *Inspector {
	in := &Inspector{
		c: c, guard: config.Guard, sessions: access.Sessions{Guard: config.Guard, State: c.StateStore()}, endpoint: config.Endpoint,
		routes: http.NewServeMux(), streams: make(chan struct{}, maxStreams),
	}
	in.life, in.end = context.WithCancel(context.Background())
	for pattern, page := range map[string]http.HandlerFunc{
		"GET /{$}":                   in.serve(in.showCalls),
		"GET /stream":                in.serveStream,
		"GET /calls/{ref}":           in.serve(in.showCall),
		"GET /calls/{ref}/body":      in.serveCallBody,
		"POST /calls/{ref}/replay":   in.serveForm(in.replayCall),
		"GET /replay":                in.serve(in.showReplay),
		"POST /replay":               in.serveForm(in.replayChosen),
		"GET /destinations":          in.serve(in.showDestinations),
		"GET /destinations/new":      in.serve(in.showNewDestination),
		"GET /destination":           in.serve(in.showDestination),
		"POST /destinations/save":    in.serveForm(in.saveDestination),
		"POST /destinations/test":    in.serveForm(in.testDestination),
		"POST /destinations/preview": in.serveForm(in.previewDestination),
		"POST /destinations/pause":   in.serveForm(in.act("The destination is paused: its calls wait.", c.Pause)),
		"POST /destinations/resume":  in.serveForm(in.act("The destination goes on.", c.Resume)),
		"POST /destinations/remove":  in.serveForm(in.removeDestination),
		"GET /audiences":             in.serve(in.showAudiences),
		"POST /audiences/sync":       in.serveSync,
		"POST /audiences/forget":     in.serveForm(in.forgetComputation),
		"GET /deletions":             in.serve(in.showDeletions),
		"POST /deletions":            in.serveForm(in.makeDeletion),
		"GET /deletion":              in.serve(in.showDeletion),
		"GET /signatures":            in.serveForm(in.showSignatures),
		"POST /signatures":           in.serveForm(in.showSignatures),
		"POST /logout":               in.serveLogout,
	} {
		in.routes.Handle(pattern, in.requireLogin(page))
	}
	in.routes.HandleFunc("GET /login", in.serveLogin)
	in.routes.HandleFunc("POST /login", in.serveLogin)
	in.routes.HandleFunc("GET /assets/{name}", serveAsset)
	return in
}
