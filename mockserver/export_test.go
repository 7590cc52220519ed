package mockserver

// Engine returns the collector that the server is made of.
func (s *Server) Engine() *Collector { return s.engine }

// RunEngine is RunT for what a Config does not have.
func RunEngine(t TB, config EngineConfig) *Server {
	t.Helper()
	return runEngine(t, config, false)
}

// RunEngineInProcess is RunEngine with Config.InProcess.
func RunEngineInProcess(t TB, config EngineConfig) *Server {
	t.Helper()
	return runEngine(t, config, true)
}

func runEngine(t TB, config EngineConfig, inProcess bool) *Server {
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
