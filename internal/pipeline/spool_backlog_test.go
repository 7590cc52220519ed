package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// backlogEnv is an environment variable with the size of the backlog in MB. The default is 64.
const backlogEnv = "ANALYTICS_TEST_BACKLOG_MB"

// Opening a spool with a backlog does not read the backlog. Sending the backlog uses a limited amount
// of memory.
func TestSpoolBacklog(t *testing.T) {
	megabytes := 64
	if s := os.Getenv(backlogEnv); s != "" {
		var err error
		megabytes, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	calls := backlog(t, dir, int64(megabytes)<<20)
	base := heap()
	start := time.Now()
	p := startTestPipeline(t, Config{Spool: dir, SpoolMaxBytes: 1 << 40, FlushAt: 100}, answering(http.StatusOK))
	opened := time.Since(start)
	require.Equal(t, int64(calls), p.Stats().Recovered)

	flushed := make(chan *Undelivered, 1)
	go func() { flushed <- p.Flush(context.Background()) }()
	peak := int64(0)
	for done := false; !done; {
		select {
		case left := <-flushed:
			require.Nil(t, left)
			done = true
		case <-time.After(20 * time.Millisecond):
			peak = max(peak, heap()-base)
		}
	}
	t.Logf("%d MB in %d calls: opened in %v, sent in %v, %d MB of memory at most", megabytes, calls, opened, time.Since(start), peak>>20)
	_, err := p.Shutdown(t.Context())
	require.NoError(t, err)
	s := p.Stats()
	require.Equal(t, int64(calls), s.Delivered)
	require.Equal(t, int64(calls), s.Accepted)
	const segment = 8 << 20 // the maximum size of a segment
	// The limit includes a segment, the next page, and buffers. It also includes memory that
	// is released while the test measures the heap, which takes long on a busy machine.
	require.LessOrEqual(t, peak, int64(segment+segment/8+maxRefill+(p.MaxInFlight+2)*MaxBatchBytes+32<<20))
	files, err := filepath.Glob(filepath.Join(dir, "*.calls"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// backlog fills a spool with the given number of bytes of calls. It returns the number of calls.
func backlog(t *testing.T, dir string, size int64) (calls int) {
	var mu sync.Mutex
	mu.Lock()
	disk, _, err := spool.Open(dir, spool.Options{Mutex: &mu, MaxBytes: 1 << 40, Source: sourceOf("key")})
	require.NoError(t, err)
	body := fmt.Sprintf(`{"text":"%0630d"}`, 0)
	record := spool.Record{Buf: append(make([]byte, spool.HeadLen), body...)}
	record.Prepare()
	for ; disk.Usage() < size; calls++ {
		require.NoError(t, disk.Append(&record, time.Now()))
	}
	disk.Stop()
	mu.Unlock()
	disk.Close()
	return calls
}
