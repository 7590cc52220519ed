package analytics

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// backlogEnv sets how many megabytes TestSpoolBacklog sends; the default is 64.
const backlogEnv = "ANALYTICS_TEST_BACKLOG_MB"

// A backlog is opened without being read, and sent in bounded memory.
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
	client, err := NewWithConfig("key", Config{
		Spool: dir, SpoolMaxBytes: 1 << 40, FlushAt: 100, HTTPClient: &http.Client{Transport: taker{}},
	})
	require.NoError(t, err)
	start := time.Now()
	_, err = client.pipeline(t.Context())
	require.NoError(t, err)
	opened := time.Since(start)
	require.Equal(t, int64(calls), client.Stats().Recovered)

	flushed := make(chan error, 1)
	go func() { flushed <- client.Flush(context.Background()) }()
	peak := int64(0)
	for done := false; !done; {
		select {
		case err = <-flushed:
			require.NoError(t, err)
			done = true
		case <-time.After(20 * time.Millisecond):
			peak = max(peak, heap()-base)
		}
	}
	t.Logf("%d MB in %d calls: opened in %v, sent in %v, %d MB of memory at most", megabytes, calls, opened, time.Since(start), peak>>20)
	require.NoError(t, client.Close())
	s := client.Stats()
	require.Equal(t, int64(calls), s.Delivered)
	require.Equal(t, int64(calls), s.Accepted)
	const segment = 8 << 20 // at most
	// A segment, what is read ahead of it, buffers, and what is let go while the
	// heap is measured, which takes long on a machine that is busy.
	require.LessOrEqual(t, peak, int64(segment+segment/8+maxRefill+(defaultMaxInFlight+2)*MaxBatchBytes+32<<20))
	files, err := filepath.Glob(filepath.Join(dir, "*.calls"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// backlog fills a spool with size bytes of calls, and returns how many.
func backlog(t *testing.T, dir string, size int64) (calls int) {
	disk, _, err := spool.Open(dir, spool.Options{MaxBytes: 1 << 40, Source: sourceOf("key")})
	require.NoError(t, err)
	k := largeTrack().wire()
	record := spool.Record{Buf: make([]byte, spool.HeadLen)}
	for ; disk.Usage() < size; calls++ {
		now := time.Now()
		record.Buf, err = k.append(record.Buf[:spool.HeadLen], now.UnixMilli())
		require.NoError(t, err)
		require.NoError(t, disk.Append(&record, now))
	}
	disk.Stop()
	disk.Close()
	return calls
}
