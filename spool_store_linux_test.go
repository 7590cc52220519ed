package analytics

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cutShort is memory that a file was mapped into which is empty now.
func cutShort(t *testing.T) []byte {
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
	mapped := cutShort(t)
	for _, at := range []int{0, 1, 4095, 5000} {
		for _, n := range []int{1, 100, 5000, 40_000} {
			require.ErrorIs(t, store(mapped[at:at+n], make([]byte, n)), errVanished)
		}
	}
}

// Any other panic is a mistake of the program, and stays one.
func TestStorePanicsOnAnotherFault(t *testing.T) {
	require.Panics(t, func() { _ = store(make([]byte, 100), cutShort(t)[:100]) })
	require.False(t, isFaultIn(nil, "a text"))
	require.False(t, isFaultIn(nil, nil))
}

// However many calls wait to be written, no file becomes longer than readers of
// the spool read.
func TestSpoolWritesManyCallsInPieces(t *testing.T) {
	const callers = 100
	client, err := NewWithConfig("key", Config{
		Spool: t.TempDir(), HTTPClient: &http.Client{Transport: silent{}}, FlushAfter: time.Hour,
	})
	require.NoError(t, err)
	call := &Track{Event: strings.Repeat("e", 32_000), UserId: "u"}
	require.NoError(t, client.Track(call))
	p := client.running.Load()
	p.spool.writing.Lock()
	var made sync.WaitGroup
	for range callers {
		made.Go(func() {
			if err := client.Track(call); err != nil {
				t.Error(err)
			}
		})
	}
	waiting := func() int {
		p.mu.Lock()
		defer p.unlock()
		return p.spool.writers
	}
	require.Eventually(t, func() bool { return waiting() == callers }, time.Minute, time.Millisecond)
	p.spool.writing.Unlock()
	made.Wait()
	p.mu.Lock()
	for _, g := range p.spool.segments {
		require.LessOrEqual(t, g.size, int64(maxGroup+headLen+callers*endsLen))
	}
	p.unlock()
	require.EqualValues(t, callers+1, client.Stats().Pending)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, client.Shutdown(over))
}
