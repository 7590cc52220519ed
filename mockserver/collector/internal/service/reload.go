package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// debounce is how long a file must be unchanged before it is read, because editors write files in
// several steps.
const debounce = 100 * time.Millisecond

// maxDebounce limits the total wait, because other files in the directory may change continuously.
const maxDebounce = time.Second

// Reload applies a changed configuration: sources and their plans, destinations, alerts,
// telemetry, the admin token, hosts and proxies, the certificate and the log level. It returns
// the names of the other changed settings, which require a restart.
//
// If the error is engine.ErrNotRemoved, the new configuration is in effect, and the next reload
// removes the destination. After other errors, the current configuration stays in effect. If the
// store has failed, some destinations may already have been added or attached to other sources. The
// next reload completes the change.
func (s *Service) Reload(ctx context.Context, c *config.Config) (restart []string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	certificate, err := loadCertificate(c)
	if err != nil {
		return nil, err
	}
	// A reload does not change the listeners, and whether a token is required depends on them.
	guard := guardConfig(s.options.Config)
	guard.Token, guard.Hosts, guard.Proxies = c.Admin.Token, c.Admin.Hosts, c.Admin.Proxies
	if _, err := access.NewGuard(guard); err != nil {
		return nil, err
	}
	var notRemoved error
	if err := s.plans.change(c, func() error {
		err := s.collector.Apply(ctx, c.Settings())
		if errors.Is(err, engine.ErrNotRemoved) {
			notRemoved, err = err, nil // the new sources are in use, and need their plans
		}
		return err
	}); err != nil {
		return nil, err
	}
	s.alerter.Configure(c.Alerts)
	s.configureTelemetry(ctx, c)
	_ = s.guard.Configure(guard) // checked above
	if s.certificate.Load() != nil && certificate != nil {
		s.certificate.Store(certificate)
	}
	if s.options.Level != nil {
		s.options.Level.Set(c.Log.SlogLevel())
	}
	return needRestart(s.options.Config, c), notRemoved
}

// needRestart returns the changed settings that require a restart.
func needRestart(before, after *config.Config) (names []string) {
	for _, setting := range []struct {
		name          string
		before, after any
	}{
		{"listen", before.Listen, after.Listen},
		{"data", before.Data, after.Data},
		{"nats", before.NATS, after.NATS},
		{"sync", before.Sync, after.Sync},
		{"strict", before.Strict, after.Strict},
		{"redactKey", before.RedactKey, after.RedactKey},
		{"limits", before.Limits, after.Limits},
		{"httpConfig", before.HTTPConfig, after.HTTPConfig},
		{"egress", before.Egress, after.Egress},
		{"admin.listen", before.Admin.Listen, after.Admin.Listen},
		{"tls", before.TLS.CertFile != "", after.TLS.CertFile != ""},
		{"log.format", before.Log.Format, after.Log.Format},
	} {
		if !reflect.DeepEqual(setting.before, setting.after) {
			names = append(names, setting.name)
		}
	}
	return names
}

// Follow reloads the configuration when one of its files changes, or when again receives a
// value, until ctx ends. It logs the results.
func (s *Service) Follow(ctx context.Context, path string, again <-chan os.Signal) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", path, err)
	}
	defer watcher.Close()
	read := s.options.Config.Files()
	if err := watch(watcher, read); err != nil {
		return err
	}
	settled := time.After(0)  // the files may have changed since the start
	firstChange := time.Now() // time of the first change that has not been read
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			read = s.reloadFile(ctx, path, read, watcher)
		case <-watcher.Events:
			if settled == nil {
				firstChange = time.Now()
			}
			settled = time.After(min(debounce, max(0, time.Until(firstChange.Add(maxDebounce)))))
		case err := <-watcher.Errors:
			s.log.Warn("error while watching the configuration", "error", err)
		case <-settled:
			settled = nil
			if read.Changed() {
				read = s.reloadFile(ctx, path, read, watcher)
			}
		}
	}
}

// watch watches the directories that contain the files and the targets of links. It does not
// watch the files themselves, because programs replace files.
func watch(watcher *fsnotify.Watcher, files config.Files) error {
	var errs []error
	for _, path := range files.Paths() {
		if err := watcher.Add(filepath.Dir(path)); err != nil {
			errs = append(errs, fmt.Errorf("cannot watch %s: %w", path, err))
		}
		if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
			_ = watcher.Add(filepath.Dir(target)) // without this watch, changes of the link itself are still detected
		}
	}
	return errors.Join(errs...)
}

// reloadFile reloads the configuration and returns the files to watch. If the file cannot be
// loaded, it also returns the previous files.
func (s *Service) reloadFile(ctx context.Context, path string, before config.Files, watcher *fsnotify.Watcher) config.Files {
	before = before.Now()
	c, files, err := config.LoadFiles(path)
	if err != nil {
		s.log.Error("the changed configuration is invalid; keeping the current one", "error", err)
		maps.Copy(before, files)
		files = before
	}
	if err := watch(watcher, files); err != nil {
		s.log.Warn("changes of some files are not detected; send SIGHUP after you change them", "error", err)
	}
	if c == nil {
		return files
	}
	for _, w := range c.Warnings() {
		s.log.Warn(w.Error())
	}
	restart, err := s.Reload(ctx, c)
	switch {
	case errors.Is(err, engine.ErrNotRemoved):
		s.log.Error("reloaded the configuration, but a removed destination still exists; reload it again", "error", err)
	case err != nil:
		s.log.Error("cannot apply the changed configuration; correct it, or reload it again", "error", err)
	case len(restart) > 0:
		s.log.Warn("reloaded the configuration; some settings require a restart", "settings", restart)
	default:
		s.log.Info("reloaded the configuration", "sources", len(c.Sources), "destinations", len(c.Destinations))
	}
	return files
}
