// Package hook lets other packages of this module set of a client what its Config does
// not offer. It knows no client: package analytics fills in Set.
package hook

import "time"

// Hooks is what can be set. The zero value of a field means that the client does as
// always.
type Hooks struct {
	// Backoff returns how long a batch waits before it is sent again, after failed
	// attempts, one at least. It is called with locks held: it must not block, panic, or
	// use the client.
	Backoff func(failed int) time.Duration

	// Log takes the lines of the log in place of the logger, without the write key. Lines
	// of debug come only if they were asked for. A panic in it is recovered.
	Log func(debug bool, line string)
}

// Set sets the hooks of an *analytics.Config, before a client is made with it.
var Set func(config any, hooks Hooks)
