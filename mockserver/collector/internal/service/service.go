package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
)

// Options configure a Service.
type Options struct {
	Config *config.Config
	// Dev accepts any write key, and allows webhooks on this machine.
	Dev bool
	// AcceptLoss discards the corrupted parts of a queue.
	AcceptLoss bool
	// AcceptLazySync allows a cluster whose servers acknowledge calls before they are on disk.
	AcceptLazySync bool
	Version        string
	Log            *slog.Logger
	// Level is updated when log.level changes. It may be nil.
	Level *slog.LevelVar
}

// A Service is a collector with its listeners.
type Service struct {
	options   Options
	log       *slog.Logger
	queue     *jetstream.Journal
	attempts  *attemptLog
	plans     *plans
	collector *engine.Collector
	metrics   *meter
	alerter   *alerts.Alerter
	telemetry *telemetry.Telemetry
	guard     *access.Guard
	inspector *inspector.Inspector
	main      *listener
	admin     *listener  // nil if main serves the admin API
	failed    chan error // receives the error of a listener; never closed

	certificate atomic.Pointer[tls.Certificate] // nil without TLS

	reloading sync.Mutex // serializes Reload
}

// A listener is an HTTP server with its socket.
type listener struct {
	server *http.Server
	socket net.Listener
	scheme string
	gate   *startupGate
}

// loadCertificate reads the certificate. It returns nil if no certificate is configured.
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

// configureTelemetry configures the export of traces and metrics. It only logs errors, for
// example in environment variables, because they must not prevent a start.
func (s *Service) configureTelemetry(ctx context.Context, c *config.Config) {
	if err := s.telemetry.Configure(ctx, c.Telemetry.OTLP); err != nil {
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

// URL returns the URL of the tracking API without a trailing slash.
func (s *Service) URL() string { return s.main.url() }

// AdminURL returns the URL of the admin API without a trailing slash.
func (s *Service) AdminURL() string {
	if s.admin != nil {
		return s.admin.url()
	}
	return s.main.url()
}

// url returns the URL of the listener for programs on this machine.
func (l *listener) url() string { return config.LocalURL(l.scheme, l.socket.Addr().String()) }
