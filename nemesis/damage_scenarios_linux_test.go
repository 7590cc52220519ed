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

// fillStore has the collector store something of every kind, and ends it by kill or
// in good order: calls that wait for hook, which is paused; calls that made, a
// destination made by the API, has had, or has given up; a deletion request.
// It rests for a time before that.
func (r *rig) fillStore(rest time.Duration) {
	r.Helper()
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations", map[string]any{
		"name": "made", "webhooks": []any{map[string]any{"url": r.receiver.url + "/made"}}}, nil))
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(400)
	r.receiver.answer.Store(http.StatusBadRequest)
	r.progress(400)
	r.receiver.answer.Store(0)
	require.NoError(r, r.ask(http.MethodPost, "/deletions", map[string]any{"id": "forget-me", "userIds": []string{"u1"}}, nil))
	r.own = 1 // it is told of as a call
	r.progress(400)
	r.stopLoad(patience)
	time.Sleep(rest)
	if r.random.IntN(2) == 0 {
		r.kill()
	} else {
		r.stop()
	}
}

// files returns the files of the collector's directory that match a pattern and are not
// empty.
func (r *rig) files(pattern string) []string {
	r.Helper()
	return regularFiles(r, filepath.Join(r.data(), pattern))
}

// regularFiles returns the regular files that match a pattern and are not empty.
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

// change writes a file of the store anew.
func (r *rig) change(path string, how func([]byte) []byte) {
	r.Helper()
	text, err := os.ReadFile(path)
	require.NoError(r, err)
	require.NoError(r, os.WriteFile(path, how(text), 0o600))
	name, err := filepath.Rel(r.data(), path)
	require.NoError(r, err)
	r.result.note("%s (%d bytes)", strings.TrimPrefix(name, "jetstream/$G/streams/"), len(text))
}

// storeFiles are patterns of the files in which something is stored.
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

// bitFlip changes one bit of one file, of each kind in turn. The collector either
// starts and has lost nothing, or refuses to; with --accept-loss it starts, and has
// lost what it says, which is no more than the calls of one record.
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

// firstBlock changes a bit at the beginning of what is stored of calls, where it is
// said which destinations there are.
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
			assert.Zero(r, l.Lost, "a collector that does not refuse has lost nothing")
		}
		assert.LessOrEqual(r, l.Lost, r.load.Senders*r.load.Batch, "one record was damaged: %+v", l)
	}
	if !strings.Contains(file, "KV_") {
		assert.NoError(r, r.ask(http.MethodGet, "/destinations/made", nil, nil))
		assert.NoError(r, r.ask(http.MethodGet, "/deletions/forget-me", nil, nil))
	}
	r.stop()
	r.start() // what was accepted once is not asked again
	r.verify()
}

// vanished empties or deletes a file in which calls, settings or state are stored.
// The collector refuses to start; with the directory restored from a backup it goes on.
// What it says of settings and state it knows from notes that it makes every second,
// or less often where that takes long.
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
	if !assert.Error(r, r.tryStart(), "it does not start over %s that vanished", file) {
		return
	}
	require.NoError(r, os.RemoveAll(r.data()))
	require.NoError(r, os.CopyFS(r.data(), os.DirFS(backup)))
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
	assert.NoError(r, r.ask(http.MethodGet, "/deletions/forget-me", nil, nil))
}

// torn leaves a part of a record, or bytes that are none, at the end of a file, as a
// power cut in the middle of a write does. Nobody was told that it was stored: it is
// cut off without asking.
func torn(r *rig) {
	r.loaded(500)
	r.kill()
	files := r.files("jetstream/$G/streams/*-*S/msgs/*.blk") // CALLS, OUTCOMES, ATTEMPTS
	files = append(files, r.files("jetstream/$G/streams/*-STATE/msgs/*.blk")...)
	r.change(files[int(r.seed)%len(files)], func(b []byte) []byte {
		n := 1 + r.random.IntN(min(len(b)/2, 5000))
		switch r.random.IntN(3) {
		case 0: // as a record begins
			return append(b, b[:n]...)
		case 1: // a page of which nothing was written
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

// oldDamage changes a bit of what was stored seconds ago under sync: 1s, which
// forgives only what the last second can have torn.
func oldDamage(r *rig) {
	r.settings = "sync: 1s"
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(1000)
	r.stopLoad(patience)
	time.Sleep(4 * time.Second) // until all is on the disk
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
	if !assert.Error(r, r.tryStart(), "it does not start over an old damage") {
		return
	}
	require.NoError(r, os.WriteFile(file, text, 0o600))
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
}

// lazyPowerCut cuts the power under sync: 1s, which may lose the last second and
// nothing that is older.
func lazyPowerCut(r *rig) {
	r.settings = "sync: 1s"
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(1000)
	r.sleep(2*time.Second, 4*time.Second)
	r.mayLose = time.Now().Add(-2500 * time.Millisecond) // a second, and what a busy machine is late
	r.powerCut()
	r.mayLoseUntil = time.Now()
	r.start()
	r.progress(200)
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.finish()
}

// replays kills the collector while calls that failed are replayed, and has them
// replayed again at once. Each is counted once, and none is listed that was
// delivered.
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
	assert.Zero(r, all[0].Failed, "all were replayed: %+v", all[0])
	assert.Equal(r, r.load.Sent.Load(), int64(all[0].Delivered), "each is counted once")
	r.finish()
}

// queueLimit kills the collector whose queue is full. What is stored counts from the
// first moment after a start.
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
		r.launch() // one whose queue is full does not become ready
		r.await("it answers", func() bool { return r.ask(http.MethodGet, "/ledger", nil, nil) == nil })
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
