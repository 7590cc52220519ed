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
	// settled is how long after the history was read a collector has what it needs.
	// What the start took beside that goes back to the system then.
	settled = time.Second
)

// maySaveMemory reports whether the environment leaves it to us when garbage is collected.
func maySaveMemory() bool { return os.Getenv("GOGC") == "" }

// collectEarly has garbage collected as gcPercent says.
func collectEarly() { debug.SetGCPercent(gcPercent) }

// giveMemoryBack gives back what the start took, a moment after the history is read.
func giveMemoryBack(read <-chan struct{}) {
	<-read
	time.AfterFunc(settled, debug.FreeOSMemory)
}
