package mockserver

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// Handler returns the server's HTTP handler.
func (s *Server) Handler() http.Handler { return s.handler }

// Engine returns the server's engine.
func (s *Server) Engine() *engine.Collector { return s.engine }

// RunEngine is like RunT with an engine configuration.
func RunEngine(t TB, config engine.Config) *Server {
	t.Helper()
	return runEngine(t, config, false)
}

// RunEngineInProcess is like RunEngine without a listener.
func RunEngineInProcess(t TB, config engine.Config) *Server {
	t.Helper()
	return runEngine(t, config, true)
}

func runEngine(t TB, config engine.Config, inProcess bool) *Server {
	t.Helper()
	config.AnyWriteKey = config.AnyWriteKey || len(config.Sources) == 0
	config.Sender.Policy.AllowLoopback = true
	config.Messages = true
	s, err := run(config, inProcess)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
