package inspector

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// New returns the inspector of a collector.
func New(c *engine.Collector, config Config) *Inspector {
	in := &Inspector{
		c: c, guard: config.Guard, sessions: access.Sessions{Guard: config.Guard, State: c.StateStore()}, endpoint: config.Endpoint, routes: http.NewServeMux(),
		streams: make(chan struct{}, maxStreams), done: make(chan struct{}),
	}
	for pattern, page := range map[string]http.HandlerFunc{
		"GET /{$}":                  in.serveCalls,
		"GET /stream":               in.serveStream,
		"GET /calls/{ref}":          in.serveCall,
		"GET /calls/{ref}/body":     in.serveCallBody,
		"POST /calls/{ref}/replay":  in.serveReplayCall,
		"GET /replay":               in.serveReplay,
		"POST /replay":              in.serveReplayAll,
		"GET /destinations":         in.serveDestinations,
		"GET /destinations/new":     in.serveNewDestination,
		"GET /destination":          in.serveDestination,
		"POST /destinations/save":   in.serveSaveDestination,
		"POST /destinations/test":   in.serveTestDestination,
		"POST /destinations/pause":  in.act("The destination is paused: its calls wait.", c.Pause),
		"POST /destinations/resume": in.act("The destination goes on.", c.Resume),
		"POST /destinations/remove": in.serveRemoveDestination,
		"GET /audiences":            in.serveAudiences,
		"POST /audiences/sync":      in.serveSync,
		"POST /audiences/forget":    in.serveForget,
		"GET /deletions":            in.serveDeletions,
		"POST /deletions":           in.serveMakeDeletion,
		"GET /deletion":             in.serveDeletion,
		"GET /signatures":           in.serveSignatures,
		"POST /signatures":          in.serveSignatures,
	} {
		in.routes.Handle(pattern, in.requireLogin(page))
	}
	in.routes.HandleFunc("GET /login", in.serveLogin)
	in.routes.HandleFunc("POST /login", in.serveLogin)
	in.routes.Handle("POST /logout", in.requireLogin(http.HandlerFunc(in.serveLogout)))
	in.routes.HandleFunc("GET /assets/{name}", serveAsset)
	return in
}
