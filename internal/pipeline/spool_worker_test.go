package pipeline

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// newTestWorker returns a spool worker that is not started, with the memory budget of a client with
// the given MaxBytes.
func newTestWorker(t *testing.T, dir string, maxBytes int64) *spoolWorker {
	t.Helper()
	p := newTestPipeline(t, Config{Spool: dir, MaxBytes: maxBytes, FlushAt: 10})
	require.NoError(t, p.openSpool())
	return p.spool
}

func (w *spoolWorker) appendCall(t *testing.T, body string) {
	t.Helper()
	require.NoError(t, accept(w.Pipeline, body))
}

// sendAll marks all batches as delivered and returns the number of their calls.
func (w *spoolWorker) sendAll() (calls int) {
	w.mu.Lock()
	defer w.unlock()
	if w.open.calls > 0 {
		w.seal(time.Now())
	}
	for b := w.outbox.oldest(); b != nil; b = w.outbox.oldest() {
		calls += b.calls
		w.end(b, nil)
	}
	return calls
}

func (w *spoolWorker) finish() {
	w.mu.Lock()
	w.disk.Stop()
	w.mu.Unlock()
	w.disk.Close()
}

// This test covers the states of the worker during and after an outage of the collector.
func TestSpoolStates(t *testing.T) {
	w := newTestWorker(t, t.TempDir(), 128<<10)
	defer w.finish()
	call := fmt.Sprintf(`{"text":"%01000d"}`, 0)
	require.Equal(t, inMemory, w.state)
	calls := 0
	for ; w.state == inMemory; calls++ {
		w.appendCall(t, call)
	}
	require.Equal(t, diskOnly, w.state, "there is no memory for a call")
	for range 300 {
		w.appendCall(t, call)
		calls++
	}
	require.True(t, w.readBack())
	require.EqualValues(t, calls, w.pending())
	require.Empty(t, w.wake, "there is no memory to read back")

	sent := w.sendAll()
	require.Len(t, w.wake, 1, "there is memory again")
	require.True(t, w.readBack())
	require.Equal(t, diskOnly, w.state, "that memory is used")
	for w.state == diskOnly {
		sent += w.sendAll()
		require.True(t, w.readBack())
	}
	require.Equal(t, inMemory, w.state, "all calls are read back")
	require.Equal(t, calls, sent+w.sendAll())
	require.Zero(t, w.pending())

	w.state = spilling
	w.appendCall(t, call)
	require.Equal(t, diskOnly, w.state, "the call is not placed")
	require.Zero(t, w.sendAll())
	require.True(t, w.readBack())
	require.Equal(t, 1, w.sendAll())
}

// A call that has waited for memory is kept in memory if there is memory for it, even if there is not
// enough to wake waiting calls.
func TestSpoolStaysInMemoryAfterAWait(t *testing.T) {
	for _, released := range []int64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorker(t, t.TempDir(), 128<<10)
			defer w.finish()
			w.WhenFull = Block
			start := time.Now()
			w.budget.used = w.limit + 1
			time.AfterFunc(memoryWait/2, func() {
				w.mu.Lock()
				defer w.unlock()
				w.release(released)
			})
			w.appendCall(t, "{}")
			require.Equal(t, memoryWait, time.Since(start))
			require.Equal(t, released == 0, w.state == diskOnly)
		})
	}
}

// A worker that finds calls in the spool starts to read them back.
func TestSpoolWorkerReadsRecoveredCalls(t *testing.T) {
	dir := t.TempDir()
	first := newTestWorker(t, dir, 128<<10)
	for i := range 30 {
		first.appendCall(t, fmt.Sprintf(`{"messageId":"%d"}`, i))
	}
	first.finish()
	second := newTestWorker(t, dir, 128<<10)
	defer second.finish()
	require.Equal(t, diskOnly, second.state)
	require.EqualValues(t, 30, second.pending())
	require.True(t, second.readBack())
	require.Equal(t, inMemory, second.state)
	require.Equal(t, 30, second.sendAll())
}

// A flush also waits for calls of a previous process that were not counted when the spool was opened.
func TestFlushWaitsForRecountedCalls(t *testing.T) {
	w := newTestWorker(t, t.TempDir(), 128<<10)
	defer w.finish()
	w.appendCall(t, "{}")
	w.mu.Lock()
	f := w.startFlush()
	w.unlock()
	last := f.upTo + 2
	w.page = spool.Page{Recounted: 2, Next: spool.Position(last + 1)}
	w.openPage()
	require.Equal(t, 1, w.sendAll())
	require.False(t, isDone(f))
	require.Equal(t, w.pending(), f.left)
	w.flushes.ended(last, 1)
	require.Equal(t, int64(1), f.left)
	w.page = spool.Page{Recounted: -1, Next: spool.Position(last + 1)}
	w.openPage()
	require.True(t, isDone(f))
}

// The worker tries once per second to read a segment. After ten attempts, the segment is lost.
func TestSpoolWorkerRetriesReads(t *testing.T) {
	dir := t.TempDir()
	first := newTestWorker(t, dir, 128<<10)
	first.appendCall(t, `{"messageId":"lost"}`)
	first.finish()
	files, err := filepath.Glob(filepath.Join(dir, "*.calls"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(t, dir, 128<<10)
		require.NoError(t, os.Remove(files[0]))
		require.NoError(t, os.Mkdir(files[0], 0o700)) // a directory instead of a regular file
		go w.run()
		time.Sleep(8500 * time.Millisecond)
		require.Zero(t, w.Stats().Dropped.total())
		time.Sleep(time.Second)
		require.Equal(t, Drops{Damaged: 1}, w.Stats().Dropped)
		require.Zero(t, w.Stats().Pending)
		close(w.stop)
		<-w.done
		w.finish()
	})
}

// Records that another program has written to the spool may not be calls. They are dropped.
func TestRecordsThatAreNotCallsAreDropped(t *testing.T) {
	for name, records := range map[string][]string{
		"no JSON":       {"a", "b", "c"},
		"one is empty":  {"{}", "", "{}", "{}"},
		"unbalanced":    {"{}", "{", "{}", "{}"},
		"more than one": {"{},{}", "{}", "{},{}"},
	} {
		for _, gzip := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", gzip ", gzip), func(t *testing.T) {
				p := startTestPipeline(t, Config{Spool: t.TempDir(), Gzip: gzip}, answering(http.StatusBadRequest))
				for _, body := range records {
					require.NoError(t, accept(p, body))
				}
				left, err := p.Shutdown(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, len(records), left.Dropped.Refused)
				require.Zero(t, p.Stats().Pending)
				require.Zero(t, p.Stats().Bytes)
			})
		}
	}
}
