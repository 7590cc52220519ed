package spool

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newTruncatedMapping returns the mapped memory of a file that was then truncated to zero bytes.
func newTruncatedMapping(t *testing.T) []byte {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(1<<16))
	mapped, err := mapFile(f, 1<<16)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unmapFile(mapped)) })
	require.NoError(t, f.Truncate(0))
	return mapped
}

func TestStoreFaultOfTheFileIsAnError(t *testing.T) {
	mapped := newTruncatedMapping(t)
	for _, at := range []int{0, 1, 4095, 5000} {
		for _, n := range []int{1, 100, 5000, 40_000} {
			require.ErrorIs(t, store(mapped[at:at+n], make([]byte, n)), errVanished)
		}
	}
}

// store does not recover other panics.
func TestStorePanicsOnAnotherFault(t *testing.T) {
	require.Panics(t, func() { _ = store(make([]byte, 100), newTruncatedMapping(t)[:100]) })
	require.False(t, isFaultIn(nil, "a text"))
	require.False(t, isFaultIn(nil, nil))
}

// No file exceeds the maximum size that readers accept, regardless of the length of the queue.
func TestLongQueueIsWrittenInPieces(t *testing.T) {
	const callers = 100
	l := open(t, t.TempDir(), Options{})
	require.NoError(t, appendTo(l, strings.Repeat("e", 32_000)))
	release := l.holdFile()
	var made sync.WaitGroup
	for range callers {
		made.Go(func() {
			if err := appendTo(l, strings.Repeat("e", 32_000)); err != nil {
				t.Error(err)
			}
		})
	}
	queued := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.queue)
	}
	require.Eventually(t, func() bool { return queued() == callers }, time.Minute, time.Millisecond)
	release()
	made.Wait()
	l.mu.Lock()
	for _, g := range l.segments {
		require.LessOrEqual(t, g.size, int64(maxGroup+headLen+callers*endsLen))
	}
	l.mu.Unlock()
}

// When the calls of a large batch are acknowledged, several segments finish at once. The log keeps
// their files for new segments, up to a limit.
func TestFilesOfSegmentsThatEndTogetherAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, so the log treats itself as busy
		l := open(t, t.TempDir(), Options{})
		var done []Position
		for range 24 << 20 / MaxBody {
			r := &Record{Buf: append(make([]byte, HeadLen), strings.Repeat("r", MaxBody)...)}
			require.NoError(t, l.Append(r, time.Now()))
			done = append(done, r.Position)
		}
		for _, p := range done {
			l.Done(p, 1)
		}
		synctest.Wait() // until maintain is idle
		l.mu.Lock()
		defer l.mu.Unlock()
		require.Zero(t, l.room.freeing)
		require.Greater(t, l.room.spare, int64(maxSpare)*3/4)
		require.LessOrEqual(t, l.room.spare, int64(maxSpare))
	})
}
