package analytics

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// backlogEnv is how many megabytes TestSpoolBacklog sends, 64 unless set.
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
	// A segment, what is read ahead of it, buffers, and what is let go while the
	// heap is measured, which takes long on a machine that is busy.
	require.LessOrEqual(t, peak, int64(maxSegment+maxSegment/8+maxSegment/2+(defaultMaxInFlight+2)*MaxBatchBytes+32<<20))
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	require.NoError(t, err)
	require.Empty(t, files)
}

// backlog fills a directory with sealed segments of that many bytes.
func backlog(t *testing.T, dir string, size int64) (calls int) {
	source := sourceOf("key")
	data := appendRecord(nil, spoolRecord{kindHead, 7, 0, append([]byte{spoolVersion}, source[:]...)})
	k, err := largeTrack().wire()
	require.NoError(t, err)
	each := 0
	for ; len(data) < maxSegment-MaxCallBytes; each++ {
		call, err := k.append(nil, time.Now())
		require.NoError(t, err)
		data = appendRecord(data, spoolRecord{kindCall, 7, uint32(each), call})
	}
	data = appendEnds(data, 7, 0, tally{0, uint32(each), 0})
	for number := uint64(1); size > 0; number++ {
		require.NoError(t, os.WriteFile(filepath.Join(dir, segmentName(number)), data, 0o600), fmt.Sprint(number))
		size -= int64(len(data))
		calls += each
	}
	return calls
}
