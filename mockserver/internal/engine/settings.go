package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// settingsKey is the key of the stored settings. They are one value, because they change
// together.
const settingsKey = "settings"

// loadStored returns the stored settings. They are zero before the first change.
func (c *Collector) loadStored(ctx context.Context) (storedSettings, error) {
	s, err := state.Load[storedSettings](ctx, c.config.Store, settingsKey)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return s, fmt.Errorf("mockserver: could not read the settings: %w", err)
	}
	return s, nil
}

// Settings returns the current settings: the configuration and the settings created at run
// time.
func (c *Collector) Settings() settings.Settings { return c.settings.now.Load().Settings }

// Configured returns the settings of the configuration.
func (c *Collector) Configured() settings.Settings { return c.settings.now.Load().defined }

// Apply replaces the settings of the configuration. Settings that were created at run time stay.
// No accepted calls are lost: existing destinations continue, new ones get the calls received
// from now on, and removed ones are deleted with their pending calls. If Apply fails, settings
// that it has not applied yet stay unchanged. For a *webhook.FieldError, these are all settings.
func (c *Collector) Apply(ctx context.Context, s settings.Settings) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	if err := c.apply(ctx, s, c.settings.stored); err != nil || len(c.settings.stored.Gone) == 0 {
		return err
	}
	// A gone mark that no longer applies must not apply again if the old settings return.
	if err := c.changeLocked(ctx, func(*storedSettings, settings.Settings) error { return nil }); err != nil {
		c.config.Logger.Warn("could not store that destinations were resumed", "error", err)
	}
	return nil
}

// AddSource adds a source. The error is ErrExists if the name is taken, a *webhook.FieldError for
// each invalid setting, or an error of the store.
func (c *Collector) AddSource(ctx context.Context, s tracking.Source) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if slices.ContainsFunc(all.Sources, settings.SourceNamed(s.Name)) {
			return fmt.Errorf("%w: there is a source %s", state.ErrExists, text.Quote(text.MaxRepeated, s.Name))
		}
		stored.Sources = append(stored.Sources, s)
		return nil
	})
}

// ChangeSource calls change with a source and stores the result. It calls change again if another
// process has changed the settings in the meantime. The error is change's error, ErrUnknown,
// ErrReadOnly, or one of AddSource.
func (c *Collector) ChangeSource(ctx context.Context, name string, change func(*tracking.Source) error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("source", name, stored.Sources, all.Sources, settings.SourceNamed(name))
		if err != nil {
			return err
		}
		return change(&stored.Sources[i])
	})
}

// RemoveSource removes a source. Its stored calls stay. The error is ErrUnknown, ErrReadOnly, or
// an error of the store.
func (c *Collector) RemoveSource(ctx context.Context, name string) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("source", name, stored.Sources, all.Sources, settings.SourceNamed(name))
		if err == nil {
			stored.Sources = slices.Delete(stored.Sources, i, i+1)
		}
		return err
	})
}

// AddDestination adds a destination. It gets the calls received from now on. See AddSource for
// the error.
func (c *Collector) AddDestination(ctx context.Context, d tracking.Destination) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if slices.ContainsFunc(all.Destinations, settings.DestinationNamed(d.Name)) {
			return fmt.Errorf("%w: there is a destination %s", state.ErrExists, text.Quote(text.MaxRepeated, d.Name))
		}
		stored.Destinations = append(stored.Destinations, d)
		return nil
	})
}

// ChangeDestination calls change with a destination and stores the result. See ChangeSource.
func (c *Collector) ChangeDestination(ctx context.Context, name string, change func(*tracking.Destination) error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("destination", name, stored.Destinations, all.Destinations, settings.DestinationNamed(name))
		if err != nil {
			return err
		}
		return change(&stored.Destinations[i])
	})
}

// RemoveDestination removes a destination with its pending and failed calls. See RemoveSource for
// the error.
func (c *Collector) RemoveDestination(ctx context.Context, name string) error {
	return c.removeDestination(ctx, name, func() error { return nil })
}

// removeDestination removes a destination unless check, which is called while no other change
// runs, returns an error.
func (c *Collector) removeDestination(ctx context.Context, name string, check func() error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("destination", name, stored.Destinations, all.Destinations, settings.DestinationNamed(name))
		if err == nil {
			err = check()
		}
		if err == nil {
			stored.Destinations = slices.Delete(stored.Destinations, i, i+1)
			stored.pause(name, false)
		}
		return err
	})
}

// Pause stops attempts to a destination until Resume, also after a restart if the settings are
// durable. Requests in flight continue. Its calls stay pending, but their four hours continue to
// run. The error is ErrUnknown or an error of the store.
func (c *Collector) Pause(ctx context.Context, destination string) error {
	return c.setPaused(ctx, destination, true)
}

// Resume ends a Pause, or resumes a destination that stopped because its webhooks responded
// with 410. See Pause for the error.
func (c *Collector) Resume(ctx context.Context, destination string) error {
	return c.setPaused(ctx, destination, false)
}

func (c *Collector) setPaused(ctx context.Context, destination string, paused bool) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if !slices.ContainsFunc(all.Destinations, settings.DestinationNamed(destination)) {
			return state.Unknown("destination", destination)
		}
		stored.pause(destination, paused)
		if !paused {
			delete(stored.Gone, destination)
		}
		return nil
	})
}

func (s *storedSettings) pause(destination string, paused bool) {
	s.Paused = slices.DeleteFunc(s.Paused, func(name string) bool { return name == destination })
	if paused {
		s.Paused = append(s.Paused, destination)
	}
}

// find returns the index of a name among the stored values.
func find[T any](kind, name string, stored, all []T, named func(T) bool) (int, error) {
	if i := slices.IndexFunc(stored, named); i >= 0 {
		return i, nil
	}
	if slices.ContainsFunc(all, named) {
		return -1, fmt.Errorf("%w: change %s %s there", state.ErrReadOnly, kind, text.Quote(text.MaxRepeated, name))
	}
	return -1, state.Unknown(kind, name)
}

// change edits the stored settings and applies them. edit also gets all settings that would apply
// without the change. It is called again if another process has changed the settings.
func (c *Collector) change(ctx context.Context, edit func(stored *storedSettings, all settings.Settings) error) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	return c.changeLocked(ctx, edit)
}

// changeLocked is like change. The caller holds changing.
func (c *Collector) changeLocked(ctx context.Context, edit func(stored *storedSettings, all settings.Settings) error) error {
	if c.life.Err() != nil {
		return state.ErrClosed // the change could be stored but not applied
	}
	defined := c.Configured()
	var refused error
	stored, err := state.Update(ctx, c.config.Store, settingsKey, func(s *storedSettings) error {
		if refused = edit(s, s.addedTo(defined)); refused == nil {
			s.pruneGone(s.addedTo(defined))
			refused = s.addedTo(defined).Validate()
		}
		return refused
	})
	switch {
	case refused != nil:
		return refused
	case errors.Is(err, state.ErrConflict):
		return fmt.Errorf("%w repeatedly", state.ErrSettingsChanged)
	case err != nil:
		return fmt.Errorf("mockserver: could not store the settings: %w", err)
	}
	return c.apply(ctx, defined, stored)
}

// settingsRetry is the delay after a change in the store could not be applied.
const settingsRetry = time.Second

// follow calls apply after each change in the store by another process, until ctx ends.
func (c *Collector) follow(ctx context.Context, changes <-chan struct{}, apply func(context.Context) error) {
	for range changes {
		for ctx.Err() == nil {
			err := apply(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			c.config.Logger.Error("could not apply a change in the store; trying again", "error", err)
			_ = pause.For(ctx, settingsRetry) // the loop checks ctx
		}
	}
}

func (c *Collector) catchUp(ctx context.Context) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	if c.life.Err() != nil {
		return nil // the next process applies them
	}
	stored, err := c.loadStored(ctx)
	if err != nil || reflect.DeepEqual(stored, c.settings.stored) {
		return err
	}
	return c.apply(ctx, c.Configured(), stored)
}
