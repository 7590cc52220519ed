package service

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
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
	// A collector that allocates less than quietBytes in quietTime is idle. Such a one
	// allocates 2 MB, and one that takes a call a second 20 MB.
	quietTime  = time.Minute
	quietBytes = 8 << 20
)

// savesMemory reports whether the process is to save memory, and the environment leaves it
// to us when garbage is collected.
func (o *Options) savesMemory() bool { return o.SaveMemory && os.Getenv("GOGC") == "" }

// collectEarly has garbage collected as gcPercent says.
func collectEarly() { debug.SetGCPercent(gcPercent) }

// giveMemoryBack returns unused memory to the system until ctx ends: once shortly after the
// history has been read, and after each minute in which the collector was idle. An idle
// collector maps pages of its program again: a scrape of its metrics maps several megabytes.
func giveMemoryBack(ctx context.Context, read <-chan struct{}) {
	select {
	case <-read:
	case <-ctx.Done():
	}
	if pause.For(ctx, settled) != nil {
		return
	}
	freeMemory()
	for before := allocated(); pause.For(ctx, quietTime) == nil; {
		now := allocated()
		if now-before < quietBytes {
			freeMemory()
		}
		before = now
	}
}

// freeMemory returns unused memory to the system.
func freeMemory() {
	debug.FreeOSMemory()
	unmapProgram()
}

// allocated returns how many bytes the program has allocated since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
