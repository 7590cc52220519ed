package users

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// oneSource returns the source of a name, or the only one where none is given: of
// the settings, or else of those that are known.
func (u *Service) oneSource(s settings.Settings, name string) (string, error) {
	var names []string
	for _, source := range s.Sources {
		names = append(names, source.Name)
	}
	if len(names) == 0 {
		names = u.allSources(s)
	}
	switch {
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "" && len(names) == 0:
		return "", &webhook.FieldError{Field: "source", Problem: "is empty", Hint: "name the source; none is known yet"}
	case name == "":
		return "", &webhook.FieldError{Field: "source", Problem: "is empty", Hint: "name one of " + strings.Join(names, ", ")}
	case slices.Contains(names, name) || u.config.AnyWriteKey:
		return name, nil
	}
	return "", fmt.Errorf("%w: there is no source %q", state.ErrUnknown, name)
}

// allSources returns the names of all sources that are known: of the settings, of
// what destinations are connected to, and where any write key makes a source, of
// the calls that are remembered.
func (u *Service) allSources(s settings.Settings) []string {
	names := map[string]bool{}
	for _, source := range s.Sources {
		names[source.Name] = true
	}
	if u.config.AnyWriteKey {
		for _, d := range s.Destinations {
			for _, source := range d.Sources {
				names[source] = true
			}
		}
		for _, source := range u.config.SeenSources() {
			names[source] = true
		}
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// oneDestination returns the destination of a name, or the only one of a source
// where none is given. It must be one that gets the source's calls.
func oneDestination(s settings.Settings, source, name string) (*tracking.Destination, error) {
	var names []string
	var found *tracking.Destination
	for i := range s.Destinations {
		d := &s.Destinations[i]
		if name == "" && gets(d, source) == nil {
			names = append(names, d.Name)
			found = d
		} else if name != "" && d.Name == name {
			return d, gets(d, source)
		}
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("%w: there is no destination %q", state.ErrUnknown, name)
	case len(names) == 0:
		return nil, &webhook.FieldError{Field: "destination", Problem: "is empty",
			Hint: fmt.Sprintf("connect a destination to source %q and enable it; there is none", source)}
	case len(names) > 1:
		return nil, &webhook.FieldError{Field: "destination", Problem: "is empty", Hint: "name one of " + strings.Join(names, ", ")}
	}
	return found, nil
}

// gets returns nil if the destination gets calls of a source, or says why not.
func gets(d *tracking.Destination, source string) error {
	problem, hint := "", ""
	switch {
	case d.Disabled:
		problem, hint = "is disabled", "enable it first"
	case len(d.Sources) > 0 && !slices.Contains(d.Sources, source):
		problem, hint = fmt.Sprintf("is not connected to source %q", source), "connect it first"
	default:
		return nil
	}
	return &webhook.FieldError{Field: fmt.Sprintf("destination %q", d.Name), Problem: problem, Hint: hint}
}
