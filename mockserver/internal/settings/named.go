package settings

import "github.com/seed-45eadc4a/analytics-go/mockserver/tracking"

// SourceNamed returns a function that picks the source of a name, for package slices.
func SourceNamed(name string) func(tracking.Source) bool {
	return func(s tracking.Source) bool { return s.Name == name }
}

// DestinationNamed returns a function that picks the destination of a name.
func DestinationNamed(name string) func(tracking.Destination) bool {
	return func(d tracking.Destination) bool { return d.Name == name }
}
