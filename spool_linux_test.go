package analytics_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// mountSmallDisk mounts a file system with the given options.
func mountSmallDisk(t *testing.T, options string) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestSpoolOnAFullDisk(t *testing.T) {
	for title, max := range map[string]int64{"plain": 0, "mapped": 1 << 20} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSpoolOnAFullDisk(t, max) }) // segments of the small spool are mapped into memory, see fillManySegments
		})
	}
}

// testSpoolOnAFullDisk fills a disk and then delivers the calls. The client maps the segments of a
// small spool into memory.
func testSpoolOnAFullDisk(t *testing.T, max int64) {
	disk := mountSmallDisk(t, "size=256k")
	dir := filepath.Join(disk, "spool")
	client := newClient(t, newDownCollector(), analytics.Config{Spool: dir, SpoolMaxBytes: max, FlushAt: 10})
	m := &analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 3000)}}
	accepted, refused, mapped := 0, 0, false
	for range 200 {
		if err := client.Track(m); err == nil {
			accepted++
			mapped = mapped || mappedFiles(t, dir) > 0
		} else {
			require.ErrorIs(t, err, analytics.ErrSpool)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorContains(t, err, dir)
			refused++
		}
	}
	require.Positive(t, refused)
	require.Greater(t, accepted, 30)
	require.Equal(t, int64(refused), client.Stats().Rejected.Spool)
	requireSum(t, client.Stats())
	require.Equal(t, max > 0, mapped)
	require.Error(t, client.Shutdown(endedContext()))

	// All accepted calls were stored. After their delivery, the disk has space again.
	up := &collector{}
	client = newClient(t, up, analytics.Config{Spool: dir, FlushAt: 10})
	require.NoError(t, client.Flush(shortContext(t)))
	require.Equal(t, int64(accepted), client.Stats().Delivered)
	require.Zero(t, client.Stats().Dropped.Total())
	require.Eventually(t, func() bool { return len(segments(t, dir)) == 0 }, time.Minute, time.Millisecond)
	// The disk frees the space of a removed file when no process has the file open.
	require.Eventually(t, func() bool {
		return client.Track(&analytics.Track{Event: "after", UserId: "u"}) == nil
	}, time.Minute, time.Millisecond)
	track(t, client, "after", 10)
	require.NoError(t, client.Close())
}

func TestSpoolOnAReadOnlyDisk(t *testing.T) {
	disk := mountSmallDisk(t, "size=1m")
	dir := filepath.Join(disk, "spool")
	leaveCalls(t, dir, "left", 3)
	require.NoError(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	client := newClient(t, &collector{}, analytics.Config{Spool: dir})
	err := client.Track(&analytics.Track{Event: "e", UserId: "u"})
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorIs(t, err, syscall.EROFS)
	require.ErrorIs(t, client.Close(), syscall.EROFS)
}

// asNobody calls f without the permissions of root.
func asNobody(t *testing.T, f func()) {
	if os.Getuid() == 0 {
		const nobody = 65534
		require.NoError(t, syscall.Seteuid(nobody))
		defer func() { require.NoError(t, syscall.Seteuid(0)) }()
	}
	f()
}

func TestSpoolWithoutPermission(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.Chmod(parent, 0o555))
	client := newClient(t, &collector{}, analytics.Config{Spool: filepath.Join(parent, "spool")})
	var err error
	asNobody(t, func() { err = client.Track(&analytics.Track{Event: "e", UserId: "u"}) })
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, parent)
	require.Equal(t, int64(1), client.Stats().Rejected.Spool)
	require.NoError(t, client.Close())
}

// If the client may no longer create files in the directory, it writes calls to the existing files
// until they are full.
func TestSpoolLosesPermission(t *testing.T) {
	dir := t.TempDir()
	client := newClient(t, newDownCollector(), analytics.Config{Spool: dir, SpoolMaxBytes: 1 << 20, FlushAt: 10})
	track(t, client, "before", 10)
	require.NoError(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o700)) })
	calls := int64(10)
	var err error
	asNobody(t, func() {
		for err == nil && calls < 1000 {
			err = client.Track(&analytics.Track{Event: "e", UserId: "u"})
			calls++
		}
	})
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorIs(t, err, os.ErrPermission)
	require.Greater(t, calls, int64(50))
	require.Equal(t, calls-1, client.Stats().Accepted)
	require.NoError(t, os.Chmod(dir, 0o700))
	track(t, client, "after", 10)
	require.Equal(t, calls-1+10, client.Stats().Pending)
	requireSum(t, client.Stats())
	require.Error(t, client.Shutdown(endedContext()))
	require.Equal(t, calls-1+10, recovered(t, dir))
}
