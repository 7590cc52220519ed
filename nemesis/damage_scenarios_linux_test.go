package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fillStore makes the collector store all kinds of data: pending calls for the paused destination
// hook, delivered and failed calls of a destination created with the API, and a deletion request. It
// then waits for the duration rest, and kills or stops the collector.
func (r *rig) fillStore(rest time.Duration) {
	r.Helper()
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations", map[string]any{
		"name": "made", "webhooks": []any{map[string]any{"url": r.receiver.url + "/made"}}}, nil))
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(200)
	r.receiver.answer.Store(http.StatusBadRequest)
	r.progress(200)
	r.receiver.answer.Store(0)
	require.NoError(r, r.ask(http.MethodPost, "/deletions", map[string]any{"id": "forget-me", "userIds": []string{"u1"}}, nil))
	r.own = 1 // the deletion notice is a call that the collector creates
	r.progress(200)
	r.stopLoad(patience)
	time.Sleep(rest)
	if r.random.IntN(2) == 0 {
		r.kill()
	} else {
		r.stop()
	}
}

// files returns the non-empty files in the collector's directory that match a pattern.
func (r *rig) files(pattern string) []string {
	r.Helper()
	return regularFiles(r, filepath.Join(r.data(), pattern))
}

// regularFiles returns the non-empty regular files that match a pattern.
func regularFiles(r *rig, pattern string) (found []string) {
	r.Helper()
	all, err := filepath.Glob(pattern)
	require.NoError(r, err)
	for _, path := range all {
		info, err := os.Stat(path)
		require.NoError(r, err)
		if info.Mode().IsRegular() && info.Size() > 0 {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// change replaces the content of a file in the store by the result of how.
func (r *rig) change(path string, how func([]byte) []byte) {
	r.Helper()
	text, err := os.ReadFile(path)
	require.NoError(r, err)
	require.NoError(r, os.WriteFile(path, how(text), 0o600))
	name, err := filepath.Rel(r.data(), path)
	require.NoError(r, err)
	r.result.note("%s (%d bytes)", strings.TrimPrefix(name, "jetstream/$G/streams/"), len(text))
}

// storeFiles contains patterns for the files that contain stored data.
var storeFiles = []string{
	"jetstream/$G/streams/*-CALLS/msgs/*.blk",
	"jetstream/$G/streams/*-OUTCOMES/msgs/*.blk",
	"jetstream/$G/streams/*-FAILED/msgs/*.blk",
	"jetstream/$G/streams/*-STATE/msgs/*.blk",
	"jetstream/$G/streams/KV_*/msgs/*.blk",
	"jetstream/$G/streams/*/msgs/index.db",
	"jetstream/$G/streams/*/meta.inf",
	"jetstream/$G/streams/*/meta.sum",
	"jetstream/$G/streams/*-RETRY/msgs/*",
	"jetstream/$G/streams/*-ATTEMPTS/msgs/*",
	"jetstream/$G/streams/*/obs/*/*",
	"journal.json",
}

// bitFlip changes one bit in one file. The rounds go through all kinds of files. Either the collector
// starts without a loss, or it refuses to start. With --accept-loss it starts, and reports exactly the
// lost calls, which are at most the calls of one record.
func bitFlip(r *rig) {
	r.fillStore(0)
	var files []string
	for i := 0; len(files) == 0; i++ {
		files = r.files(storeFiles[(int(r.seed)+i)%len(storeFiles)])
	}
	file := files[r.random.IntN(len(files))]
	r.change(file, func(b []byte) []byte {
		at := r.random.IntN(len(b))
		r.result.note("bit at %d", at)
		b[at] ^= 1 << r.random.IntN(8)
		return b
	})
	r.goOnWithDamage(file)
}

// firstBlock changes a bit in the first block of stored calls. The records there contain the
// destinations.
func firstBlock(r *rig) {
	r.fillStore(0)
	file := r.files(storeFiles[0])[0]
	r.change(file, func(b []byte) []byte {
		b[60] ^= 1 << r.random.IntN(8)
		return b
	})
	r.goOnWithDamage(file)
}

func (r *rig) goOnWithDamage(file string) {
	r.Helper()
	damaged := r.tryStart()
	if damaged != nil {
		require.ErrorContains(r, damaged, "--accept-loss")
		r.result.note("refused")
		r.start("--accept-loss")
	}
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
	for _, l := range r.settle(0) {
		if damaged == nil {
			assert.Zero(r, l.Lost, "the collector started without --accept-loss, but lost calls")
		}
		assert.LessOrEqual(r, l.Lost, r.load.Senders*r.load.Batch, "one record was damaged: %+v", l)
	}
	if !strings.Contains(file, "KV_") {
		assert.NoError(r, r.ask(http.MethodGet, "/destinations/made", nil, nil))
		assert.NoError(r, r.ask(http.MethodGet, "/deletions/forget-me", nil, nil))
	}
	r.stop()
	r.start() // after an accepted loss, the collector starts without the flag
	r.verify()
}

// vanished truncates or deletes a file of calls, settings or state. The collector refuses to start.
// After the directory is restored from a backup, the collector continues. It detects lost settings
// and state with the help of notes that it usually stores every second.
func vanished(r *rig) {
	r.fillStore(10 * time.Second)
	files := append(r.files("jetstream/$G/streams/KV_*/msgs/*.blk"), r.files("jetstream/$G/streams/*-CALLS/msgs/*.blk")...)
	file := files[int(r.seed)%len(files)]
	backup := filepath.Join(r.TempDir(), "backup")
	require.NoError(r, os.CopyFS(backup, os.DirFS(r.data())))
	if r.random.IntN(2) == 0 {
		r.result.note("deleted")
		require.NoError(r, os.Remove(file))
	} else {
		r.result.note("emptied")
		require.NoError(r, os.Truncate(file, 0))
	}
	r.result.note("%s", filepath.Base(filepath.Dir(filepath.Dir(file))))
	if !assert.Error(r, r.tryStart(), "the collector started without %s", file) {
		return
	}
	require.NoError(r, os.RemoveAll(r.data()))
	require.NoError(r, os.CopyFS(r.data(), os.DirFS(backup)))
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
	assert.NoError(r, r.ask(http.MethodGet, "/deletions/forget-me", nil, nil))
}

// torn appends a part of a record or garbage to a file, like a power cut during a write. Such a
// record was never acknowledged, so the collector removes it even without --accept-loss.
func torn(r *rig) {
	r.loaded(500)
	r.kill()
	files := r.files("jetstream/$G/streams/*-*S/msgs/*.blk") // files of CALLS, OUTCOMES and ATTEMPTS
	files = append(files, r.files("jetstream/$G/streams/*-STATE/msgs/*.blk")...)
	r.change(files[int(r.seed)%len(files)], func(b []byte) []byte {
		n := 1 + r.random.IntN(min(len(b)/2, 5000))
		switch r.random.IntN(3) {
		case 0: // the first part of a record
			return append(b, b[:n]...)
		case 1: // a page of zeros
			return append(b, make([]byte, n)...)
		}
		for range n {
			b = append(b, byte(r.random.IntN(256)))
		}
		return b
	})
	r.start()
	r.finish()
}

// oldDamage changes a bit in data that was stored some seconds ago, with sync: 1s. The collector
// accepts only damage of data from the last second.
func oldDamage(r *rig) {
	r.settings = "sync: 1s"
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(500)
	r.stopLoad(patience)
	time.Sleep(4 * time.Second) // long enough for all data to be on the disk
	r.powerCut()
	file := r.files(storeFiles[0])[0]
	text, err := os.ReadFile(file)
	require.NoError(r, err)
	at := r.random.IntN(len(text) / 3)
	r.change(file, func(b []byte) []byte {
		b[at] ^= 1 << r.random.IntN(8)
		return b
	})
	r.result.note("bit at %d", at)
	if !assert.Error(r, r.tryStart(), "the collector started with old corruption") {
		return
	}
	require.NoError(r, os.WriteFile(file, text, 0o600))
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
}

// lazyPowerCut cuts the power of a collector with sync: 1s. Only calls of the last second may be lost.
func lazyPowerCut(r *rig) {
	r.settings = "sync: 1s"
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(500)
	r.sleep(2*time.Second, 4*time.Second)
	r.mayLose = time.Now().Add(-2500 * time.Millisecond) // one second, plus the delay of a busy machine
	r.powerCut()
	r.mayLoseUntil = time.Now()
	r.start()
	r.progress(200)
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
}

// replays kills the collector while it replays failed calls, and immediately replays them again. Each
// call must be counted once, and delivered calls must not be listed as failed.
func replays(r *rig) {
	r.onDisk("")
	r.receiver.answer.Store(http.StatusBadRequest)
	r.start()
	r.load.Rate = 4000
	r.begin(4000)
	r.stopLoad(patience)
	r.settle(0)
	r.receiver.answer.Store(0)
	for range 3 {
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_ = r.ask(http.MethodPost, "/destinations/hook/replay", map[string]any{}, nil)
		}()
		r.sleep(0, 300*time.Millisecond)
		r.kill()
		<-asked
		r.start()
		r.verify()
	}
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/replay", map[string]any{}, nil))
	all := r.settle(0)
	assert.Zero(r, all[0].Failed, "not all failed calls were replayed: %+v", all[0])
	assert.Equal(r, r.load.Sent.Load(), int64(all[0].Delivered), "a call was not counted exactly once")
	r.finish()
}

// queueLimit kills a collector with a full queue. After a restart, the stored calls must count
// towards the limit immediately.
func queueLimit(r *rig) {
	const limit = 8 << 20
	r.settings = "limits: {queue: 8MiB}"
	r.onDisk("")
	r.load.CallSize, r.load.Rate = 8000, 100_000
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(0)
	for range 3 {
		refused := r.load.Refused.Load()
		r.await("calls are refused", func() bool { return r.load.Refused.Load() > refused+100 })
		r.kill()
		require.NoError(r, r.startFull())
		time.Sleep(2 * time.Second)
	}
	refused := r.load.Refused.Load()
	r.await("calls are refused", func() bool { return r.load.Refused.Load() > refused+100 })
	r.stopLoad(0)
	stored := 0
	for _, file := range r.files(storeFiles[0]) {
		info, err := os.Stat(file)
		require.NoError(r, err)
		stored += int(info.Size())
	}
	r.result.note("%.1f MiB stored of %d", float64(stored)/(1<<20), limit>>20)
	assert.Less(r, stored, limit*5/4)
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
}
