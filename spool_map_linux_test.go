package analytics_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// mappedFiles returns the number of files below dir that this process has mapped into memory.
func mappedFiles(t testing.TB, dir string) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, dir+"/") {
			n++
		}
	}
	return n
}

// fillManySegments makes a client map and reuse its files, and returns the number of calls it made.
// It fills many segments, first without pauses and then in small groups, until all calls are
// delivered. The client maps a file only if the previous segment was filled within a second. In a
// synctest bubble this is always true, because the clock stands still while goroutines run.
func fillManySegments(t testing.TB, client *analytics.Client) (calls int) {
	t.Helper()
	track(t, client, "busy", 1000)
	for range 20 {
		require.NoError(t, client.Flush(shortContext(t)))
		track(t, client, "busy", 100)
	}
	require.NoError(t, client.Flush(shortContext(t)))
	return 3000
}

func TestSpoolMapsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		client := newClient(t, &collector{}, analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20})
		track(t, client, "few", 10)
		require.Zero(t, mappedFiles(t, dir), "for a few calls it is of no use")
		fillManySegments(t, client)
		require.Positive(t, mappedFiles(t, dir))
		require.LessOrEqual(t, client.Stats().SpoolBytes, int64(1<<20))
		require.NoError(t, client.Close())
		require.Zero(t, mappedFiles(t, dir))
		require.Zero(t, client.Stats().SpoolBytes)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1, "the lock")
	})
}

// If a client reuses a file, the next process finds only the new calls in it.
func TestSpoolReusedFileHasNewCallsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		dir := t.TempDir()
		client := newClient(t, newSwitchedCollector(&on), analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, FlushAt: 10})
		fillManySegments(t, client)
		on.Store(false)
		track(t, client, "left", 500)
		require.Positive(t, mappedFiles(t, dir))

		var up *collector
		require.Eventually(t, func() bool { // retry until the acknowledgements are on the disk
			copied, err := harness.Copy(dir, t.TempDir)
			require.NoError(t, err)
			var log lines
			up = &collector{}
			next := newClient(t, up, analytics.Config{Spool: copied, Logger: log.logger()})
			require.NoError(t, next.Flush(shortContext(t)))
			require.NoError(t, next.Close())
			require.Empty(t, log.String(), "nothing is damaged")
			require.Empty(t, segments(t, copied))
			return next.Stats().Recovered == 500
		}, time.Minute, 10*time.Millisecond)
		for i := range 500 {
			require.Contains(t, up.taken("event"), name("left", i))
		}
		require.Error(t, client.Shutdown(endedContext()))
	})
}

// If another program truncates a file, the client stops using the file. The process does not crash,
// and loses no calls while it runs.
func TestSpoolFileIsTruncated(t *testing.T) {
	for _, size := range []int64{0, 5000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				var log lines
				up := &collector{}
				client := newClient(t, up, analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, FlushAt: 10, Logger: log.logger(), CloseTimeout: 5 * time.Minute})
				calls := fillManySegments(t, client)
				before := mappedFiles(t, dir)
				require.Positive(t, before)
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				require.NoError(t, err)
				files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == "lock" })
				for range 10 {
					for _, path := range files {
						if err := os.Truncate(path, size); err != nil {
							require.ErrorIs(t, err, os.ErrNotExist)
						}
					}
					track(t, client, "after", 100)
					calls += 100
				}
				require.NoError(t, client.Close())
				s := client.Stats()
				requireSum(t, s)
				require.Equal(t, int64(calls), s.Delivered)
				require.Contains(t, log.String(), "was removed while calls were written to it")
				require.Zero(t, mappedFiles(t, dir))
			})
		})
	}
}

func TestSpoolDirectoryIsRemovedUnderMappedFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	up := &collector{}
	client := newClient(t, up, analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, FlushAt: 10})
	calls := fillManySegments(t, client)
	require.NoError(t, os.RemoveAll(dir))
	calls += fillManySegments(t, client)
	require.NotEmpty(t, segments(t, dir))
	require.NoError(t, client.Close())
	require.Equal(t, int64(calls), client.Stats().Delivered)
	require.Zero(t, mappedFiles(t, dir))
}

// With SpoolSync, the client does not map files into memory.
func TestSpoolSyncMapsNothing(t *testing.T) {
	dir := t.TempDir()
	client := newClient(t, &collector{}, analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, SpoolSync: true, FlushAt: 10})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 100 {
				if err := client.Track(&analytics.Track{Event: "e", UserId: "u"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	require.Zero(t, mappedFiles(t, dir))
	require.NoError(t, client.Close())
	require.Equal(t, int64(800), client.Stats().Delivered)
}
