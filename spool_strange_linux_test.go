package analytics_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// Unknown files in the directory do not prevent the delivery of previous calls, and the client still
// accepts new calls.
func TestSpoolSkipsUnknownFiles(t *testing.T) {
	segment := func(dir string, number int) string { return filepath.Join(dir, fmt.Sprintf("%016x.calls", number)) }
	for title, c := range map[string]struct {
		add func(t *testing.T, dir string)
		log string
	}{
		"a directory": {
			func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(segment(dir, 9), 0o700)) },
			"000000000000009.calls: not a regular file",
		},

		"a symbolic link": {
			func(t *testing.T, dir string) {
				outside := filepath.Join(t.TempDir(), "outside")
				require.NoError(t, os.WriteFile(outside, []byte("text"), 0o600))
				t.Cleanup(func() {
					text, err := os.ReadFile(outside)
					require.NoError(t, err)
					require.Equal(t, "text", string(text))
				})
				require.NoError(t, os.Symlink(outside, segment(dir, 9)))
			},
			"000000000000009.calls: not a regular file",
		},
		"a file that cannot be read": {
			func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(segment(dir, 9), []byte("text"), 0)) },
			"000000000000009.calls: permission denied",
		},
		"8 TB of nothing": {
			func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(segment(dir, 9), nil, 0o600))
				require.NoError(t, os.Chmod(segment(dir, 9), 0o666))
				if err := os.Truncate(segment(dir, 9), 8<<40); err != nil {
					t.Skip(err) // some file systems do not support files of this size
				}
			},
			"is 8796093022208 bytes long, longer than any segment",
		},
		"calls, and 8 TB of nothing behind them": {
			func(t *testing.T, dir string) {
				require.NoError(t, os.Rename(segments(t, dir)[0], segment(dir, 9)))
				if err := os.Truncate(segment(dir, 9), 8<<40); err != nil {
					t.Skip(err)
				}
			},
			"is 8796093022208 bytes long, longer than any segment",
		},
	} {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			leaveCalls(t, dir, "left", 3)
			require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
			require.NoError(t, os.Chmod(dir, 0o777))
			require.NoError(t, os.Chmod(segments(t, dir)[0], 0o666))
			require.NoError(t, os.Chmod(filepath.Join(dir, "lock"), 0o666))
			c.add(t, dir)
			var log lines
			up := &collector{}
			client := newClient(t, up, analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, Logger: log.logger()})
			asNobody(t, func() { track(t, client, "new", 3) })
			require.NoError(t, client.Flush(shortContext(t)))
			requireSum(t, client.Stats())
			require.NoError(t, client.Close())
			require.Equal(t, map[string]int{
				"left-000": 1, "left-001": 1, "left-002": 1, "new-000": 1, "new-001": 1, "new-002": 1,
			}, up.taken("event"))
			require.Contains(t, log.String(), c.log)
		})
	}
}

// fileSizes returns the size of each file in a directory.
func fileSizes(t *testing.T, dir string) map[string]int64 {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	sizes := map[string]int64{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // the file may have been removed since ReadDir
			sizes[entry.Name()] = info.Size()
		}
	}
	return sizes
}

// leastSize returns a lower bound for the size of a directory. It lists the directory twice, because
// files grow and disappear in the meantime. For each file in both lists, it adds the smaller size.
func leastSize(t *testing.T, dir string) (size int64) {
	before := fileSizes(t, dir)
	for name, after := range fileSizes(t, dir) {
		size += min(before[name], after)
	}
	return size
}

// Files count towards SpoolMaxBytes until they are removed.
func TestSpoolDirectoryStaysWithinItsLimit(t *testing.T) {
	for _, policy := range []analytics.FullPolicy{analytics.Reject, analytics.DropOldest} {
		for _, callback := range []bool{false, true} {
			t.Run(fmt.Sprint(policy, callback), func(t *testing.T) {
				const limit = 1 << 20
				cfg := analytics.Config{Spool: t.TempDir(), SpoolMaxBytes: limit, WhenFull: policy, MaxBytes: 256 << 10}
				if callback {
					cfg.Callback = func(analytics.Result) {}
				}
				client := newClient(t, newDownCollector(), cfg)
				text := strings.Repeat("x", 1000)
				var callers sync.WaitGroup
				for range 4 {
					callers.Go(func() {
						for i := range 3000 {
							_ = client.Track(&analytics.Track{Event: text, UserId: "u"})
							if i%100 == 0 {
								if size := leastSize(t, cfg.Spool); size > limit+100 { // the lock file, of less than 100 bytes, does not count
									t.Errorf("%d bytes", size)
								}
								if size := client.Stats().SpoolBytes; size > limit {
									t.Errorf("%d bytes are counted", size)
								}
							}
						}
					})
				}
				callers.Wait()
				s := client.Stats()
				requireSum(t, s)
				require.GreaterOrEqual(t, s.Pending, int64(300), "half of it is used")
				if policy == analytics.DropOldest {
					require.Zero(t, s.Rejected.Total())
				}
				require.Error(t, client.Shutdown(endedContext()))
			})
		}
	}
}

// A program may call Stats while the client closes its spool.
func TestSpoolStatsAsItClosesConcurrentSafe(t *testing.T) {
	for range 20 {
		client := newClient(t, &collector{}, analytics.Config{Spool: t.TempDir(), SpoolMaxBytes: 1 << 20, WhenFull: analytics.Block})
		fillManySegments(t, client)
		stop := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Microsecond):
					client.Stats()
				}
			}
		})
		require.NoError(t, client.Close())
		close(stop)
		reader.Wait()
	}
}
