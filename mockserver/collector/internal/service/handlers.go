package service

import (
	"net/http"
	"net/http/pprof"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
)

// everything returns the handler for the admin API, the inspector and the tracking API. Only
// operators have access to the admin API. If the tracking API has a separate listener, endpoint
// is the URL of that listener.
func (s *Service) everything(endpoint string) http.Handler {
	operators := http.NewServeMux()
	api := admin.New(s.collector, s.options.Version)
	operators.Handle("/api/", api)
	if s.options.Dev {
		for _, path := range admin.TestPaths {
			operators.Handle(path, api)
		}
	}
	operators.Handle("/metrics", s.metrics.handler())
	operators.HandleFunc("/debug/pprof/", pprof.Index)
	operators.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	operators.HandleFunc("/debug/pprof/profile", pprof.Profile)
	operators.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	operators.HandleFunc("/debug/pprof/trace", pprof.Trace)
	guarded := s.guard.Wrap(operators)
	s.inspector = inspector.New(s.collector, inspector.Config{Guard: s.guard, Endpoint: endpoint})
	pages := s.inspector.Wrap(s.telemetry.Handler(s.collector))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := operators.Handler(r); pattern != "" {
			guarded.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
