package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

const (
	// drainTimeout limits the wait for requests and deliveries in flight during a shutdown. A
	// delivery takes up to five seconds.
	drainTimeout = 15 * time.Second
	// endTimeout limits the whole shutdown. Supervisors kill the process after 30 s.
	endTimeout = 25 * time.Second
)

// Start listens, opens the queue and starts forwarding. The caller must call Run.
func Start(ctx context.Context, o Options) (*Service, error) {
	s := &Service{
		options: o, log: o.Log,
		metrics: newMeter(o.Version), failed: make(chan error, 2),
	}
	s.alerter = alerts.New(hostname(), o.Log, s.metrics.countAlert)
	s.alerter.Configure(o.Config.Alerts)
	s.telemetry = telemetry.New(o.Version, s.metrics.registry, s.metrics.countTelemetry, o.Log)
	certificate, err := loadCertificate(o.Config)
	if err != nil {
		return nil, err
	}
	s.certificate.Store(certificate)
	if s.guard, err = access.NewGuard(guardConfig(o.Config)); err != nil {
		return nil, err
	}
	// Listen first, so that a port in use is reported immediately and probes see a live process.
	if err := s.listen(); err != nil {
		s.closeListeners()
		return nil, err
	}
	s.configureTelemetry(ctx, o.Config) // must come before the first delivery
	if err := s.open(ctx); err != nil {
		s.telemetry.Close(ctx)
		s.closeListeners()
		return nil, err
	}
	s.metrics.watched.Store(s)
	s.alerter.Start(s.collector)
	s.openGates()
	var observeRemote func(event.Event) // receives events of other collectors
	if o.Config.NATS != nil {
		observeRemote = s.collector.ObserveRemote
	}
	s.attempts.read(observeRemote)
	return s, nil
}

// hostname returns the name of this collector in alerts.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "collector"
	}
	return name
}

// listen starts the listeners.
func (s *Service) listen() (err error) {
	c, main := s.options.Config, "listen"
	if s.options.Dev {
		main = "--listen" // collector dev has flags instead of settings
	}
	if s.main, err = s.startListener(main, c.Listen); err == nil && c.Admin.Listen != "" {
		s.admin, err = s.startListener("admin.listen", c.Admin.Listen)
	}
	return err
}

// closeListeners closes the open listeners.
func (s *Service) closeListeners() {
	for _, l := range []*listener{s.main, s.admin} {
		if l != nil {
			_, _ = l.server.Close(), l.socket.Close() // the server may not have started yet
		}
	}
}

// Listen listens on the address of a setting, or of a flag such as --listen. The error explains how to fix
// common problems.
func Listen(setting, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	why := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok {
		why = op.Err.Error() // without the address
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "the address is in use: stop the other program, or choose another address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this machine does not have that address: use one of its addresses, or :8765 for all of them"
	case errors.Is(err, syscall.EACCES):
		why = "permission denied: choose a port above 1023"
	}
	return nil, fmt.Errorf("%s %s: %s", setting, address, why)
}

// openGates opens the startup gates of the listeners.
func (s *Service) openGates() {
	if s.admin == nil {
		everything := s.everything("")
		s.main.server.RegisterOnShutdown(s.inspector.Close) // open streams would delay the shutdown
		s.main.gate.open(everything)
		return
	}
	s.admin.gate.open(s.everything(s.main.scheme + "://" + s.main.socket.Addr().String()))
	s.main.gate.open(s.telemetry.Handler(s.collector))
}

// startListener starts a listener. Its startup gate is closed at first.
func (s *Service) startListener(setting, address string) (*listener, error) {
	socket, err := Listen(setting, address)
	if err != nil {
		return nil, err
	}
	gate := newStartupGate()
	l := &listener{server: access.NewHTTPServer(gate), socket: socket, scheme: "http", gate: gate}
	l.server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	if s.certificate.Load() != nil {
		l.scheme = "https"
		l.server.TLSConfig = &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
		}
	}
	go func() {
		var err error
		if l.scheme == "https" {
			err = l.server.ServeTLS(socket, "", "")
		} else {
			err = l.server.Serve(socket)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("listening on %v: %w", socket.Addr(), err)
		}
	}()
	return l, nil
}

// Run serves until ctx ends or a listener fails, and then shuts down: it stops accepting
// requests, waits for requests and deliveries in flight, and closes the queue. Pending calls
// stay in the queue.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if os.Getenv("GOGC") == "" {
		go saveMemory(ctx, s.attempts.restored)
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.failed:
	}
	return errors.Join(failure, s.shutdown())
}

func (s *Service) shutdown() error {
	s.log.Info("draining", "timeout", drainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	draining, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	s.alerter.Close()
	s.collector.Drain() // the collector is not ready from here on
	stopped := s.main.server.Shutdown(draining)
	if stopped != nil {
		stopped = errors.Join(stopped, s.main.server.Close())
	}
	s.attempts.close()
	drained := within(ctx, func() error { return s.collector.Shutdown(draining) })
	s.telemetry.Close(ctx)
	if s.admin != nil { // the admin API is served until the end
		_ = s.admin.server.Close()
	}
	if err := errors.Join(stopped, drained); err != nil {
		return fmt.Errorf("shutdown was incomplete; undelivered calls stay in the queue: %w", err)
	}
	s.log.Info("stopped")
	return nil
}

// within runs do and returns its result, or an error if ctx ends first. In the second case, do
// keeps running.
func within(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
