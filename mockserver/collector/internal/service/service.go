package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/metrics"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// Options say what to run.
type Options struct {
	Config *config.Config
	// Dev takes any write key, and allows webhooks on this machine.
	Dev bool
	// AcceptLoss goes on with what is left of a queue that is damaged.
	AcceptLoss bool
	// AcceptLazySync goes on with a cluster whose servers acknowledge calls before they
	// are on a disk.
	AcceptLazySync bool
	// SaveMemory lets the process collect its garbage earlier than Go's default has it,
	// unless the environment says when, by GOGC.
	SaveMemory bool
	Version    string
	Log        *slog.Logger
	// Level, if it is not nil, follows log.level when the configuration changes.
	Level *slog.LevelVar

	clientOf func(*http.Request) netip.Addr // of requests to the tracking API; nil: the collector's own
	isHTTPS  func(*http.Request) bool       // of requests to the tracking API; nil: the collector's own
}

// A Service is a collector that listens.
type Service struct {
	options   Options
	log       *slog.Logger
	store     *store
	collector *engine.Collector
	metrics   *metrics.Metrics
	alerter   *alerts.Alerter
	telemetry *telemetry.Telemetry
	guard     *access.Guard
	inspector *inspector.Inspector
	main      *listener
	admin     *listener  // nil where the admin API is on main
	failed    chan error // gets what a listener ends with; never closed

	certificate atomic.Pointer[tls.Certificate] // nil without TLS

	reloading sync.Mutex // lets one Reload run at a time
}

// A listener serves one address.
type listener struct {
	server  *http.Server
	address net.Addr
	scheme  string
	gate    *startupGate
}

// A ListenError says that an address cannot be listened on.
type ListenError struct {
	Setting string // listen or admin.listen
	Address string
	Err     error // without the address
}

func (e *ListenError) Error() string { return e.Setting + " " + e.Address + ": " + e.Err.Error() }

func (e *ListenError) Unwrap() error { return e.Err }

// A store is the queue, and what is kept beside it.
type store struct {
	queue    *jetstream.Journal
	settings state.Store
	state    state.Store
	history  *history.History
	attempts *attemptLog
	plans    *plans
}

// close is for a store that no collector has taken over.
func (s *store) close() error {
	s.attempts.close()
	return s.queue.Close()
}

// loadCertificate returns nil where there is none.
func loadCertificate(c *config.Config) (*tls.Certificate, error) {
	if c.TLS.CertFile == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return &certificate, nil
}

// alertsConfig says whom to tell when something is wrong; nobody where it is nil.
func alertsConfig(c *config.Config) *alerts.Config {
	if c.Alerts == nil {
		return nil
	}
	return &alerts.Config{Settings: c.Alerts.Settings(), After: time.Duration(c.Alerts.After), Slack: c.Alerts.Format == config.AlertsSlack}
}

// telemetryConfig says where traces and metrics go; nowhere where it is nil.
func telemetryConfig(c *config.Config) *telemetry.Config {
	o := c.Telemetry.OTLP
	if o == nil {
		return nil
	}
	off := func(enabled *bool) bool { return enabled != nil && !*enabled }
	return &telemetry.Config{
		Endpoint: o.Endpoint, Protocol: o.Protocol, Headers: o.Headers, Insecure: o.Insecure,
		NoTraces: off(o.Traces.Enabled), Ratio: o.Traces.Ratio,
		NoMetrics: off(o.Metrics.Enabled), Interval: time.Duration(o.Metrics.Interval),
	}
}

// configureTelemetry sends traces and metrics as a configuration says. What the environment
// has wrong keeps no calls from being taken.
func (s *Service) configureTelemetry(ctx context.Context, c *config.Config) {
	if err := s.telemetry.Configure(ctx, telemetryConfig(c)); err != nil {
		s.log.Error("cannot apply the telemetry settings; the previous ones stay in effect", "error", err)
	}
}

func guardConfig(c *config.Config) access.GuardConfig {
	address := c.Listen
	if c.Admin.Listen != "" {
		address = c.Admin.Listen
	}
	return access.GuardConfig{Token: c.Admin.Token, Loopback: config.Loopback(address), Hosts: c.Admin.Hosts, Proxies: c.Admin.Proxies}
}

// URL is where calls are sent to, without a slash at its end.
func (s *Service) URL() string { return s.main.url() }

// AdminURL is where the admin API is, without a slash at its end.
func (s *Service) AdminURL() string {
	if s.admin != nil {
		return s.admin.url()
	}
	return s.main.url()
}

// url is where programs on this machine reach the listener.
func (l *listener) url() string {
	address := l.address.String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("localhost", port)
	}
	return l.scheme + "://" + address
}
