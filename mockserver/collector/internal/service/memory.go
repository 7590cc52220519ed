package service

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// gcPercent is the value of GOGC. A busy collector uses about 80 MB, and half of that is for
	// buffers of the queue. While it processes a list of a million users, it uses 220 MB with
	// Go's default of 100, and 180 MB with 50. The value 50 costs about 10 % more CPU at full
	// speed.
	gcPercent = 50
	// settled is the delay between reading the history and the first release of memory.
	settled = time.Second
	// A collector that allocates less than quietBytes per quietTime is idle. An idle collector
	// allocates about 2 MB per minute; one call per second allocates 20 MB.
	quietTime  = time.Minute
	quietBytes = 8 << 20
)

// saveMemory lowers GOGC, and returns unused memory to the system until ctx ends: once after the
// history has been read, and after idle minutes. It repeats this because even a scrape of the metrics
// maps several megabytes of the program again. It collects garbage only after quietBytes of
// allocations: one collection per minute would be a third of the CPU time of an idle collector. Call
// saveMemory after the start is complete, because a start would take more CPU.
func saveMemory(ctx context.Context, read <-chan struct{}) {
	debug.SetGCPercent(gcPercent)
	select {
	case <-read:
	case <-ctx.Done():
	}
	if pause.For(ctx, settled) != nil {
		return
	}
	freeMemory()
	unmapProgram()
	freed := allocated()
	for before := freed; pause.For(ctx, quietTime) == nil; {
		now := allocated()
		if now-before < quietBytes {
			if now-freed >= quietBytes {
				freeMemory()
				freed = now
			}
			unmapProgram()
		}
		before = now
	}
}

// freeMemory returns unused memory to the system.
func freeMemory() {
	runtime.GC() // FreeOSMemory collects again; only a second collection empties a sync.Pool
	debug.FreeOSMemory()
}

// allocated returns the number of bytes allocated since the start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
