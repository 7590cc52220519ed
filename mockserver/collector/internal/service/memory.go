package service

import (
	"os"
	"runtime/debug"
	"time"
)

const (
	// gcPercent is how much garbage there may be before it is collected, in percent of
	// what is in use. A busy collector holds about 80 MB, half of it the queue's
	// buffers. With Go's 100 it takes 220 MB for a list of a million users, and with 50
	// it takes 180 MB, for about a tenth more CPU where calls come in at full speed.
	gcPercent = 50
	// settled is how long after it was started a collector has what it needs. What
	// the start took beside that, a tenth of what an idle one holds, goes back to the
	// system then.
	settled = 2 * time.Second
)

// SaveMemory lets this process collect its garbage earlier than Go's default has
// it, unless the environment says when, by GOGC. It is for the program to call,
// before Start.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		time.AfterFunc(settled, debug.FreeOSMemory)
	}
}
