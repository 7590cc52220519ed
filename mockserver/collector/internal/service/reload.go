package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

// settle is how long a file must be left alone before it is read: editors write
// in several steps.
const settle = 100 * time.Millisecond

// Reload takes on a changed configuration: sources, destinations, the admin
// token and hosts, the certificate and the log level. It returns the settings
// that changed too but are read at the start alone. On an error what was stays.
func (s *Service) Reload(ctx context.Context, c *config.Config) (restart []string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	certificate, err := loadCertificate(c)
	if err != nil {
		return nil, err
	}
	// The listeners are those of the start; so is whether a token is needed.
	guard := guardConfig(s.options.Config)
	guard.Token, guard.Hosts = c.Admin.Token, c.Admin.Hosts
	if _, err := mockserver.NewGuard(guard); err != nil {
		return nil, err
	}
	if err := s.collector.Apply(ctx, c.Settings()); err != nil {
		return nil, err
	}
	_ = s.guard.Configure(guard) // it was checked
	if s.certificate.Load() != nil && certificate != nil {
		s.certificate.Store(certificate)
	}
	if s.options.Level != nil {
		s.options.Level.Set(c.Log.SlogLevel())
	}
	return needRestart(s.options.Config, c), nil
}

// needRestart names the settings that differ and are read at the start alone.
func needRestart(before, after *config.Config) (names []string) {
	for _, setting := range []struct {
		name string
		of   func(*config.Config) any
	}{
		{"listen", func(c *config.Config) any { return c.Listen }},
		{"data", func(c *config.Config) any { return c.Data }},
		{"nats", func(c *config.Config) any { return c.NATS }},
		{"sync", func(c *config.Config) any { return c.Sync }},
		{"strict", func(c *config.Config) any { return c.Strict }},
		{"limits", func(c *config.Config) any { return c.Limits }},
		{"egress", func(c *config.Config) any { return c.Egress }},
		{"admin.listen", func(c *config.Config) any { return c.Admin.Listen }},
		{"tls", func(c *config.Config) any { return c.TLS.CertFile != "" }},
		{"log.format", func(c *config.Config) any { return c.Log.Format }},
	} {
		if !reflect.DeepEqual(setting.of(before), setting.of(after)) {
			names = append(names, setting.name)
		}
	}
	return names
}

// Follow reloads the file whenever it changes, and whenever again gets a value,
// until ctx ends. It says in the log what it did.
func (s *Service) Follow(ctx context.Context, path string, again <-chan os.Signal) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("%s cannot be watched: %w", path, err)
	}
	defer watcher.Close()
	// The directory, since a file that is replaced is another file.
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s cannot be watched: %w", path, err)
	}
	read := s.options.Config.Digest()
	settled := time.After(0) // it may have changed since it was read
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			read = config.DigestOf(path)
			s.reloadFile(ctx, path)
		case <-watcher.Events:
			settled = time.After(settle)
		case err := <-watcher.Errors:
			s.log.Warn("watching the configuration", "error", err)
		case <-settled:
			settled = nil
			if now := config.DigestOf(path); now != read {
				read = now
				s.reloadFile(ctx, path)
			}
		}
	}
}

func (s *Service) reloadFile(ctx context.Context, path string) {
	c, err := config.Load(path)
	if err != nil {
		s.log.Error("the changed configuration is wrong; what was stays", "error", err)
		return
	}
	restart, err := s.Reload(ctx, c)
	switch {
	case err != nil:
		s.log.Error("the changed configuration cannot be applied; what was stays", "error", err)
	case len(restart) > 0:
		s.log.Warn("the configuration was reloaded, but these settings need a restart", "settings", restart)
	default:
		s.log.Info("the configuration was reloaded", "sources", len(c.Sources), "destinations", len(c.Destinations))
	}
}
