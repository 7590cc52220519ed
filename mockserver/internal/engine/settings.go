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

// settingsKey is the key of the stored settings. They are stored as one value, so that several
// settings can change atomically.
const settingsKey = "settings"

// storedSettings are the settings that were created at run time. Collectors with the same store
// share them. Their JSON contains write keys and shared secrets.
type storedSettings struct {
	Sources      []tracking.Source      `json:"sources,omitempty"`
	Destinations []tracking.Destination `json:"destinations,omitempty"`
	// Paused names the paused destinations, including destinations of the configuration.
	Paused []string `json:"paused,omitempty"`
	// Gone marks destinations that stopped because their webhooks responded with 410. The keys
	// are their names. It includes destinations of the configuration.
	Gone map[string]goneMark `json:"gone,omitempty"`
}

// addedTo returns the settings of the configuration with the stored settings added. If both contain
// the same name or write key, the configuration takes precedence.
func (s *storedSettings) addedTo(defined settings.Settings) settings.Settings {
	all := settings.Settings{Sources: slices.Clone(defined.Sources), Destinations: slices.Clone(defined.Destinations)}
	for _, made := range s.Sources {
		same := func(d tracking.Source) bool { return d.Name == made.Name || d.WriteKey == made.WriteKey }
		if !slices.ContainsFunc(defined.Sources, same) {
			all.Sources = append(all.Sources, made)
		}
	}
	for _, d := range s.Destinations {
		if defined.Destination(d.Name) == nil {
			all.Destinations = append(all.Destinations, d)
		}
	}
	for i := range all.Destinations {
		d := &all.Destinations[i]
		d.Paused = d.Paused || slices.Contains(s.Paused, d.Name) || d.Disabled && d.KeepWhileDisabled
		if mark, ok := s.Gone[d.Name]; ok && mark.applies(d) {
			d.GoneSince = mark.At
		}
	}
	return all
}

// loadStored returns the stored settings, or zero settings before the first change.
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

// ErrNotRemoved means that a destination could not be removed. All other changes apply, and the next
// change removes the destination.
var ErrNotRemoved = errors.New("could not be removed")

// Apply replaces the settings of the configuration. Settings that were created at run time stay.
// No accepted calls are lost: existing destinations continue, new destinations get the calls
// received from now on, and removed destinations are deleted with their pending calls.
//
// If the error is a *webhook.FieldError, nothing has changed. If it is ErrNotRemoved, all other
// changes apply. After other errors, the settings are unchanged, but some destinations may already
// have been added or attached to other sources.
func (c *Collector) Apply(ctx context.Context, s settings.Settings) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	if err := c.apply(ctx, s, c.settings.stored, true); err != nil || len(c.settings.stored.Gone) == 0 {
		return err
	}
	// Remove gone marks that no longer apply. Otherwise they would apply again if the old URLs
	// are configured again.
	if err := c.changeLocked(ctx, func(*storedSettings, settings.Settings) error { return nil }); err != nil {
		c.config.Logger.Warn("could not store that destinations were resumed", "error", err)
	}
	return nil
}

// AddSource adds a source. The error is ErrExists if the name is already in use, contains a
// *webhook.FieldError for each invalid setting, or is an error of the store.
func (c *Collector) AddSource(ctx context.Context, s tracking.Source) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if all.Source(s.Name) != nil {
			return fmt.Errorf("%w: there is a source %s", state.ErrExists, text.Quote(text.MaxRepeated, s.Name))
		}
		stored.Sources = append(stored.Sources, s)
		return nil
	})
}

// ChangeSource calls change with a source and stores the result. If another process changes the
// settings at the same time, it calls change again. The error is ErrUnknown, ErrReadOnly, the error
// of change, or an error described at AddSource.
func (c *Collector) ChangeSource(ctx context.Context, name string, change func(*tracking.Source) error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("source", name, stored.Sources, all.Sources, settings.SourceNamed(name))
		if err != nil {
			return err
		}
		return change(&stored.Sources[i])
	})
}

// RemoveSource removes a source. Its stored calls remain. The error is ErrUnknown, ErrReadOnly, or
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

// AddDestination adds a destination. The destination gets the calls received from now on. See
// AddSource for the errors.
func (c *Collector) AddDestination(ctx context.Context, d tracking.Destination) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if all.Destination(d.Name) != nil {
			return fmt.Errorf("%w: there is a destination %s", state.ErrExists, text.Quote(text.MaxRepeated, d.Name))
		}
		stored.Destinations = append(stored.Destinations, d)
		return nil
	})
}

// ChangeDestination calls change with a destination and stores the result. See ChangeSource for
// details and errors.
func (c *Collector) ChangeDestination(ctx context.Context, name string, change func(*tracking.Destination) error) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("destination", name, stored.Destinations, all.Destinations, settings.DestinationNamed(name))
		if err != nil {
			return err
		}
		return change(&stored.Destinations[i])
	})
}

// RemoveDestination removes a destination with its pending and failed calls. Unless discard is set, it
// returns a *PendingCallsError if the destination has pending calls; calls that arrive after this check
// are still removed. See RemoveSource for the other errors.
func (c *Collector) RemoveDestination(ctx context.Context, name string, discard bool) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		i, err := find("destination", name, stored.Destinations, all.Destinations, settings.DestinationNamed(name))
		if err == nil && !discard {
			var l tracking.Ledger
			if l, err = c.ledgerOf(ctx, name); err == nil && l.Pending > 0 {
				err = &PendingCallsError{name, l.Pending}
			}
		}
		if err == nil {
			stored.Destinations = slices.Delete(stored.Destinations, i, i+1)
			stored.pause(name, false)
		}
		return err
	})
}

// Pause stops attempts to a destination until Resume, even after a restart if the settings are
// durable. Requests in flight continue. Calls stay pending, and their four-hour window continues.
// The error is ErrUnknown or an error of the store.
func (c *Collector) Pause(ctx context.Context, destination string) error {
	return c.setPaused(ctx, destination, true)
}

// Resume resumes a destination that was paused, or that stopped because its webhooks responded
// with 410. The errors are those of Pause.
func (c *Collector) Resume(ctx context.Context, destination string) error {
	return c.setPaused(ctx, destination, false)
}

func (c *Collector) setPaused(ctx context.Context, destination string, paused bool) error {
	return c.change(ctx, func(stored *storedSettings, all settings.Settings) error {
		if all.Destination(destination) == nil {
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

// find returns the index of a name among the stored values. The error reports whether the name is
// unknown or read-only.
func find[T any](kind, name string, stored, all []T, named func(T) bool) (int, error) {
	if i := slices.IndexFunc(stored, named); i >= 0 {
		return i, nil
	}
	if slices.ContainsFunc(all, named) {
		return -1, fmt.Errorf("%w: change %s %s there", state.ErrReadOnly, kind, text.Quote(text.MaxRepeated, name))
	}
	return -1, state.Unknown(kind, name)
}

// change calls edit with the stored settings and applies the result. all contains the configured
// and the stored settings. If another process changes the settings at the same time, edit is
// called again.
func (c *Collector) change(ctx context.Context, edit func(stored *storedSettings, all settings.Settings) error) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	return c.changeLocked(ctx, edit)
}

// changeLocked is like change. The caller must hold the lock changing.
func (c *Collector) changeLocked(ctx context.Context, edit func(stored *storedSettings, all settings.Settings) error) error {
	if c.ctx.Err() != nil {
		return state.ErrClosed // otherwise the change might be stored but not applied
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
	return c.apply(ctx, defined, stored, false)
}

// settingsRetry is the delay after a failure to apply a change in the store.
const settingsRetry = time.Second

// follow calls apply after each change that another process makes in the store, until ctx is
// canceled.
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
	if c.ctx.Err() != nil {
		return nil // the next process applies the changes
	}
	stored, err := c.loadStored(ctx)
	if err != nil || reflect.DeepEqual(stored, c.settings.stored) {
		return err
	}
	return c.apply(ctx, c.Configured(), stored, false)
}
