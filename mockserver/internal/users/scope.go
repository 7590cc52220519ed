package users

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// oneSource returns the named source. If name is empty, it returns the only source of the
// settings or, if there is none, the only source of the retained calls.
func (u *Service) oneSource(s settings.Settings, name string) (string, error) {
	names := s.SourceNames()
	if len(names) == 0 {
		names = u.allSources(s)
	}
	switch {
	case name == "":
		return theOnly("source", names, "name the source; none is known yet")
	case slices.Contains(names, name) || u.config.AnyWriteKey:
		return name, nil
	}
	return "", state.Unknown("source", name)
}

// theOnly returns the only name in names, as the default of a field. none is the error's hint if
// names is empty.
func theOnly(field string, names []string, none string) (string, error) {
	hint := "name one of " + strings.Join(names, ", ")
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		hint = none
	}
	return "", &webhook.FieldError{Field: field, Problem: "is empty", Hint: hint}
}

// allSources returns the names of all known sources. These are the configured sources and, if any
// write key is accepted, the sources of destinations and of retained calls.
func (u *Service) allSources(s settings.Settings) []string {
	names := s.SourceNames()
	if u.config.AnyWriteKey {
		for _, d := range s.Destinations {
			names = append(names, d.Sources...)
		}
		names = append(names, u.config.SeenSources()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// oneDestination returns the named destination. If name is empty, it returns the only destination
// that is enabled for the source.
func oneDestination(s settings.Settings, source, name string) (string, error) {
	if name != "" {
		d := s.Destination(name)
		if d == nil {
			return "", state.Unknown("destination", name)
		}
		return name, checkReceives(d, source)
	}
	return theOnly("destination", destinationsOf(s, source), "connect a destination to source "+text.Quote(text.MaxRepeated, source)+" and enable it")
}

// destinationsOf returns the names of the destinations that get the calls of a source.
func destinationsOf(s settings.Settings, source string) (names []string) {
	for i := range s.Destinations {
		if checkReceives(&s.Destinations[i], source) == nil {
			names = append(names, s.Destinations[i].Name)
		}
	}
	return names
}

// checkReceives returns the reason why a destination does not get calls of a source, or nil.
func checkReceives(d *tracking.Destination, source string) error {
	problem, hint := "", ""
	switch {
	case !d.Receives():
		problem, hint = "is disabled", "enable it first"
	case !routing.IsConnected(d, source):
		problem, hint = fmt.Sprintf("is not connected to source %q", source), "connect it first"
	default:
		return nil
	}
	return &webhook.FieldError{Field: fmt.Sprintf("destination %q", d.Name), Problem: problem, Hint: hint}
}
