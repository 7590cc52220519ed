package main

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

// kills kills the collector at moments that nobody chose.
func kills(r *rig) {
	r.loaded(0)
	for range 3 {
		r.sleep(200*time.Millisecond, time.Second)
		r.kill()
		r.start()
		r.verify()
	}
	r.finish()
}

// powerCuts cuts the power: what the kernel and the disk had only in their caches
// is gone.
func powerCuts(r *rig) {
	r.loaded(0)
	for range 2 {
		r.sleep(300*time.Millisecond, time.Second)
		r.powerCut()
		r.start()
		r.verify()
	}
	r.finish()
}

// pauses kills the collector or cuts its power while the receiver has it paused by
// Retry-After. The next start makes no request before the pause ends.
func pauses(r *rig) {
	const seconds = 8
	r.receiver.pause.Store(seconds)
	r.loaded(0)
	seen := 0
	for range 3 {
		r.await("a pause is requested", func() bool { return len(r.receiver.refusals()) > seen })
		r.sleep(time.Second, 2*time.Second) // the pause is stored in the background
		if r.random.IntN(2) == 0 {
			r.kill()
		} else {
			r.powerCut()
		}
		refused := r.receiver.refusals()
		until := refused[len(refused)-1].Add(seconds * time.Second)
		r.start()
		left := time.Until(until)
		r.result.note("started %v before the end of a pause", left.Round(100*time.Millisecond))
		time.Sleep(left)
		early := slices.DeleteFunc(r.receiver.refusals()[len(refused):], func(at time.Time) bool { return !at.Before(until) })
		assert.Empty(r, early, "requests before %v", until)
		seen = len(refused)
	}
	r.receiver.pause.Store(0)
	r.finish()
}

// failed makes one to three writes or flushes fail. Then the disk is well; the
// collector takes calls again. What it took must be on the medium, not only in the
// kernel's cache, which knows nothing of what failed.
func failed(op disk.Op, orderly bool) func(r *rig) {
	return func(r *rig) {
		r.mayStoreTwice = true
		r.loaded(200)
		n := 1 + r.random.IntN(3)
		r.result.note("%d failed %ss", n, op)
		r.disk.Fail(disk.Fault{Op: op, Ranges: r.disk.Data(), Skip: r.random.IntN(20), Count: n})
		r.await("operations have failed", func() bool { return r.disk.Stats().Failed > 0 })
		if op == disk.Write {
			r.progress(100)
		} // after a failed flush a file system may do nothing more until it is mounted again
		r.sleep(0, 500*time.Millisecond)
		if orderly {
			r.stop()
			require.NoError(r, r.disk.Remount())
		} else {
			r.powerCut()
		}
		r.start()
		r.finish()
	}
}

// fullDisk takes all room from under a collector that delivers. While outcomes can
// not be stored nothing may be delivered again and again, and the queue drains.
func fullDisk(r *rig) {
	r.mayStoreTwice = true
	r.onDisk("")
	r.load.Rate = 4000
	r.start()
	r.begin(0)
	r.delivers(5000)
	r.receiver.delay.Store(int64(100 * time.Millisecond)) // more comes than goes
	r.progress(3000)
	require.NoError(r, r.disk.Fill(0))
	r.await("calls are refused", func() bool { return r.load.Refused.Load() > 5 })
	r.receiver.delay.Store(0)
	r.sleep(3*time.Second, 6*time.Second)
	r.settle(100) // on a full disk; some calls may be taken still
	require.NoError(r, r.disk.Empty())
	r.progress(200)
	r.finish()
	r.fewRepeats()
}

// atWork is how many calls may have been delivered whose outcome could not be stored
// any more: at most four entries of 128 calls are at work for a destination.
const atWork = 4 * 128

// fewRepeats asserts that under one call in a hundred came again, beside those that
// were at work when the fault came.
func (r *rig) fewRepeats() {
	r.Helper()
	assert.Less(r, r.receiver.repeats(), r.receiver.total()/100+atWork, "repeats of calls")
}

// readOnlyDisk has the file system take no more writes, as it does itself after
// errors, until the machine starts again.
func readOnlyDisk(r *rig) {
	r.mayStoreTwice = true
	r.onDisk("ext4")
	r.load.Rate = 4000
	r.start()
	r.begin(0)
	r.delivers(5000)
	require.NoError(r, r.disk.ReadOnly())
	r.await("calls are refused", func() bool { return r.load.Refused.Load() > 5 })
	r.sleep(3*time.Second, 6*time.Second)
	r.kill()
	require.NoError(r, r.disk.PowerCut(disk.LoseNone))
	r.start()
	r.progress(200)
	r.finish()
	r.fewRepeats()
}
