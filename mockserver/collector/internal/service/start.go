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
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/metrics"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

const (
	// drainTimeout is how long requests and deliveries under way may go on once the
	// program is told to end. Deliveries take up to five seconds each.
	drainTimeout = 15 * time.Second
	// endTimeout bounds all of the end: what runs the program kills it after 30 s.
	endTimeout = 25 * time.Second
)

// Start opens the queue, listens and begins to forward. Run must follow.
func Start(ctx context.Context, o Options) (*Service, error) {
	s := &Service{
		options: o, log: o.Log,
		metrics: metrics.New(o.Version), failed: make(chan error, 2),
	}
	s.alerter = alerts.New(hostname(), o.Log, s.metrics.CountAlert)
	s.alerter.Configure(alertsConfig(o.Config))
	s.telemetry = telemetry.New(o.Version, s.metrics, s.metrics.CountTelemetry, o.Log)
	if o.savesMemory() {
		collectEarly()
	}
	certificate, err := loadCertificate(o.Config)
	if err != nil {
		return nil, err
	}
	s.certificate.Store(certificate)
	if s.guard, err = access.NewGuard(guardConfig(o.Config)); err != nil {
		return nil, err
	}
	// Listening comes before the queue is opened, so that a port that is taken is
	// said at once, and that the process lives can be seen.
	sockets, err := listen(o.Config)
	if err != nil {
		return nil, err
	}
	s.main = s.answer(sockets.main)
	if sockets.admin != nil {
		s.admin = s.answer(sockets.admin)
	}
	if s.admin == nil { // else the proxies that the guard knows are before the other listener
		o.isHTTPS, o.clientOf = s.guard.IsHTTPS, s.guard.ClientOf
	}
	s.configureTelemetry(ctx, o.Config) // what is pending is delivered as soon as the queue is open
	if s.store, s.collector, err = open(ctx, o, s.telemetry, s.metrics, s.alerter); err != nil {
		s.telemetry.Close(ctx)
		_ = s.main.server.Close()
		if s.admin != nil {
			_ = s.admin.server.Close()
		}
		return nil, err
	}
	s.metrics.Watch(s.collector, s.store.queue.Attempts().Dropped)
	s.alerter.Start(s.collector)
	s.letRequestsIn()
	var hear func(event.Event) // of others
	if o.Config.NATS != nil {
		hear = s.collector.ObserveRemote
	}
	s.store.attempts.read(hear)
	return s, nil
}

// hostname returns what alerts call this collector.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "collector"
	}
	return name
}

// sockets are the listeners that a configuration names.
type sockets struct {
	main, admin net.Listener // admin may be nil
}

func listen(c *config.Config) (sockets, error) {
	var s sockets
	var err error
	if s.main, err = listenOn("listen", c.Listen); err != nil {
		return s, err
	}
	if c.Admin.Listen != "" {
		if s.admin, err = listenOn("admin.listen", c.Admin.Listen); err != nil {
			_ = s.main.Close()
			return s, err
		}
	}
	return s, nil
}

func listenOn(setting, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	return nil, &ListenError{Setting: setting, Address: address, Err: err}
}

// letRequestsIn lets requests in on the listeners.
func (s *Service) letRequestsIn() {
	if s.admin == nil {
		everything := s.everything("")
		s.main.server.RegisterOnShutdown(s.inspector.Close) // its streams would not end
		s.main.gate.open(everything)
		return
	}
	s.admin.gate.open(s.everything(s.main.url()))
	s.main.gate.open(s.telemetry.Handler(s.collector))
}

// answer answers on a listener, at first by its gate.
func (s *Service) answer(on net.Listener) *listener {
	gate := newStartupGate()
	l := &listener{server: access.NewHTTPServer(gate), address: on.Addr(), scheme: "http", gate: gate}
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
			err = l.server.ServeTLS(on, "", "")
		} else {
			err = l.server.Serve(on)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("listening on %v: %w", l.address, err)
		}
	}()
	return l
}

// Run serves until ctx ends or a listener fails, and then ends gracefully: it
// takes no more requests, lets those and the deliveries under way end, and closes
// the queue. What is pending stays there.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.options.savesMemory() {
		go giveMemoryBack(ctx, s.store.attempts.restored)
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.failed:
	}
	return errors.Join(failure, s.shutdown())
}

func (s *Service) shutdown() error {
	s.log.Info("draining", "for at most", drainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	draining, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	s.alerter.Close()
	s.collector.Drain() // readiness says so from now on
	stopped := s.main.server.Shutdown(draining)
	if stopped != nil {
		stopped = errors.Join(stopped, s.main.server.Close())
	}
	s.store.attempts.close()
	drained := within(ctx, func() error { return s.collector.Shutdown(draining) })
	s.telemetry.Close(ctx)
	if s.admin != nil { // it shows how it goes, to the end
		_ = s.admin.server.Close()
	}
	if err := errors.Join(stopped, drained); err != nil {
		return fmt.Errorf("what was under way was broken off; calls that were not delivered stay in the queue: %w", err)
	}
	s.log.Info("ended")
	return nil
}

// within waits until do has returned, or ctx ends: what is not done then ends with the process.
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
