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

// settingsKey is where the settings are stored, as one value: they are changed
// together.
const settingsKey = "settings"

// loadStored returns what was stored last; the zero value where nothing was.
func (c *Collector) loadStored(ctx context.Context) (storedSettings, error) {
	s, err := state.Load[storedSettings](ctx, c.config.Store, settingsKey)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return s, fmt.Errorf("mockserver: the settings cannot be read: %w", err)
	}
	return s, nil
}

// Settings returns the settings that apply: those of the configuration and those
// that were made since.
func (c *Collector) Settings() settings.Settings { return c.settings.now.Load().Settings }

// Configured returns the settings of the configuration alone.
func (c *Collector) Configured() settings.Settings { return c.settings.now.Load().defined }

// Apply replaces the settings of the configuration. Calls that are accepted
// meanwhile are not lost: a destination that stays goes on where it is, one that
// is new gets the calls that come from now on, and one that is gone is forgotten
// with what it had pending. What AddSource, AddDestination and Pause made stays.
// If Apply fails, the settings that it did not come to stay as they were; where the
// error is a *webhook.FieldError or several, that is all of them.
func (c *Collector) Apply(ctx context.Context, s settings.Settings) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	if err := c.apply(ctx, s, c.settings.stored); err != nil || len(c.settings.stored.Gone) == 0 {
		return err
	}
	// What ended by the new settings must not come back with the old ones.
	if err := c.changeLocked(ctx, func(*storedSettings, settings.Settings) error { return nil }); err != nil {
		c.config.Logger.Warn("it could not be stored which destinations are no longer gone", "error", err)
	}
	return nil
}

// AddSource makes a source. Its error is ErrExists where the name is taken, a
// *webhook.FieldError for each thing that is wrong with it, or what kept it from
// being stored.
func (c *Collector) AddSource(ctx context.Context, s tracking.Source) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if slices.ContainsFunc(all.Sources, settings.SourceNamed(s.Name)) {
			return fmt.Errorf("%w: there is a source %s", state.ErrExists, text.Quote(text.MaxRepeated, s.Name))
		}
		stored.Sources = append(stored.Sources, s)
		return nil
	})
}

// ChangeSource replaces the source of a name by what change makes of it; where
// another process was quicker, change is called again. Its error is that of change,
// ErrUnknown, ErrReadOnly, or as that of AddSource.
func (c *Collector) ChangeSource(ctx context.Context, name string, change func(*tracking.Source) error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("source", name, stored.Sources, all.Sources, settings.SourceNamed(name))
		if err != nil {
			return err
		}
		return change(&stored.Sources[i])
	})
}

// RemoveSource makes a source's write key unknown. Its calls stay. Its error is
// ErrUnknown, ErrReadOnly, or what kept it from being stored.
func (c *Collector) RemoveSource(ctx context.Context, name string) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("source", name, stored.Sources, all.Sources, settings.SourceNamed(name))
		if err == nil {
			stored.Sources = slices.Delete(stored.Sources, i, i+1)
		}
		return err
	})
}

// AddDestination makes a destination, which gets the calls that come from now
// on. Its error is as that of AddSource.
func (c *Collector) AddDestination(ctx context.Context, d tracking.Destination) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if slices.ContainsFunc(all.Destinations, settings.DestinationNamed(d.Name)) {
			return fmt.Errorf("%w: there is a destination %s", state.ErrExists, text.Quote(text.MaxRepeated, d.Name))
		}
		stored.Destinations = append(stored.Destinations, d)
		return nil
	})
}

// ChangeDestination replaces the destination of a name by what change makes of
// it, as ChangeSource does.
func (c *Collector) ChangeDestination(ctx context.Context, name string, change func(*tracking.Destination) error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("destination", name, stored.Destinations, all.Destinations, settings.DestinationNamed(name))
		if err != nil {
			return err
		}
		return change(&stored.Destinations[i])
	})
}

// RemoveDestination forgets a destination, with its pending and its failed calls.
// Its error is as that of RemoveSource.
func (c *Collector) RemoveDestination(ctx context.Context, name string) error {
	return c.removeDestination(ctx, name, func() error { return nil })
}

// removeDestination forgets a destination unless check, which is asked while no other
// change runs, returns an error.
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

// Pause stops attempts to a destination until Resume, also across a restart
// where the settings are stored. Requests that are under way end. Its calls wait in
// the journal, and their four hours go on. Its error is ErrUnknown, or what kept it
// from being stored.
func (c *Collector) Pause(ctx context.Context, destination string) error {
	return c.setPaused(ctx, destination, true)
}

// Resume ends a Pause, and has a destination go on that stopped because its webhooks
// answered 410. Its error is as that of Pause.
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

// find returns the place of what is to be changed among what is stored.
func find[T any](kind, name string, stored, all []T, named func(T) bool) (int, error) {
	if i := slices.IndexFunc(stored, named); i >= 0 {
		return i, nil
	}
	if slices.ContainsFunc(all, named) {
		return -1, fmt.Errorf("%w: change %s %s there", state.ErrReadOnly, kind, text.Quote(text.MaxRepeated, name))
	}
	return -1, state.Unknown(kind, name)
}

// change edits what is stored and applies it. edit also gets the settings that would
// apply without it; it is called again where another process was quicker.
func (c *Collector) change(ctx context.Context, edit func(stored *storedSettings, all settings.Settings) error) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	return c.changeLocked(ctx, edit)
}

// changeLocked is change, for who holds changing.
func (c *Collector) changeLocked(ctx context.Context, edit func(stored *storedSettings, all settings.Settings) error) error {
	if c.life.Err() != nil {
		return state.ErrClosed // before it is stored: it could not be applied
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
		return fmt.Errorf("%w, again and again", state.ErrSettingsChanged)
	case err != nil:
		return fmt.Errorf("mockserver: the settings cannot be stored: %w", err)
	}
	return c.apply(ctx, defined, stored)
}

// settingsRetry is the wait after a change in the store could not be applied.
const settingsRetry = time.Second

// follow calls apply after each change that another process makes in the store, until ctx
// ends.
func (c *Collector) follow(ctx context.Context, changes <-chan struct{}, apply func(context.Context) error) {
	for range changes {
		for ctx.Err() == nil {
			err := apply(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			c.config.Logger.Error("a change in the store could not be applied; trying again", "error", err)
			_ = pause.For(ctx, settingsRetry) // the loop looks whether ctx has ended
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
