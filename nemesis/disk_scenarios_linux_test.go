package main

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

// kills kills the collector at random times.
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

// powerCuts cuts the power. The unflushed data in the caches of the kernel and of the disk is lost.
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

// pauses kills the collector, or cuts its power, during a pause requested with Retry-After. After a
// restart, the collector must not send a request before the pause is over.
func pauses(r *rig) {
	const seconds = 8
	r.receiver.pause.Store(seconds)
	r.loaded(0)
	seen := 0
	for range 3 {
		r.await("a pause is requested", func() bool { return len(r.receiver.refusals()) > seen })
		r.sleep(time.Second, 2*time.Second) // the collector stores the pause in the background
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

// failed injects one to three failures of writes or flushes. The disk then works again, and the collector
// accepts more calls. These calls must be stored on the medium. It is not enough that they are in the
// kernel's cache, which marks pages as clean after a failed write.
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
		} // after a failed flush, a file system may have to be mounted again
		r.sleep(0, 500*time.Millisecond)
		if orderly {
			r.stop()
			r.disk.Heal() // fewer than n operations may have failed; a collector does not start on a failing disk
			require.NoError(r, r.disk.Remount())
		} else {
			r.powerCut()
		}
		r.start()
		r.finish()
	}
}

// fullDisk fills the disk of a collector that is delivering calls. While the collector cannot store
// outcomes, it must not deliver calls twice, and its queue must become empty.
func fullDisk(r *rig) {
	r.mayStoreTwice = true
	r.onDisk("")
	r.load.Rate = 4000
	r.start()
	r.begin(0)
	r.delivers(1000)
	r.receiver.delay.Store(int64(100 * time.Millisecond)) // make deliveries slower than the load
	r.progress(3000)
	require.NoError(r, r.disk.Fill(0))
	r.await("calls are refused", func() bool { return r.load.Refused.Load() > 5 })
	r.receiver.delay.Store(0)
	r.sleep(3*time.Second, 6*time.Second)
	r.settle(100) // the disk is still full, so the collector may accept only some calls
	require.NoError(r, r.disk.Empty())
	r.progress(200)
	r.finish()
	r.fewRepeats()
}

// atWork is the maximum number of delivered calls whose outcome could not be stored. For each
// destination, at most four entries of 128 calls are in progress.
const atWork = 4 * 128

// fewRepeats checks that less than 1 % of the deliveries were repeated. It does not count calls that
// were in progress at the time of the fault.
func (r *rig) fewRepeats() {
	r.Helper()
	assert.Less(r, r.receiver.repeats(), r.receiver.total()/100+atWork, "too many repeated deliveries")
}

// readOnlyDisk makes the file system read-only until the machine restarts. File systems do this
// after errors.
func readOnlyDisk(r *rig) {
	r.mayStoreTwice = true
	r.onDisk("ext4")
	r.load.Rate = 4000
	r.start()
	r.begin(0)
	r.delivers(2000)
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
