package analytics_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// smallDisk is a file system of that many bytes.
func smallDisk(t *testing.T, options string) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestSpoolOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "size=256k")
	dir := filepath.Join(disk, "spool")
	client := newClient(t, down(), analytics.Config{Spool: dir, FlushAt: 10})
	m := &analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 3000)}}
	accepted, refused := 0, 0
	for range 200 {
		if err := client.Track(m); err == nil {
			accepted++
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
	require.Error(t, client.Shutdown(ended()))

	// All that was accepted is there, and as it is sent there is room again.
	up := &collector{}
	client = newClient(t, up, analytics.Config{Spool: dir, FlushAt: 10})
	require.NoError(t, client.Flush(within(t)))
	require.Equal(t, int64(accepted), client.Stats().Delivered)
	require.Zero(t, client.Stats().Dropped.Total())
	require.Eventually(t, func() bool { return len(segments(t, dir)) == 0 }, time.Minute, time.Millisecond)
	// The disk has the room of a file back once nobody has it open any more.
	require.Eventually(t, func() bool {
		return client.Track(&analytics.Track{Event: "after", UserId: "u"}) == nil
	}, time.Minute, time.Millisecond)
	track(t, client, "after", 10)
	require.NoError(t, client.Close())
}

func TestSpoolOnAReadOnlyDisk(t *testing.T) {
	disk := smallDisk(t, "size=1m")
	dir := filepath.Join(disk, "spool")
	leave(t, dir, "left", 3)
	require.NoError(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	client := newClient(t, &collector{}, analytics.Config{Spool: dir})
	err := client.Track(&analytics.Track{Event: "e", UserId: "u"})
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorIs(t, err, syscall.EROFS)
	require.NoError(t, client.Close())
}

func TestSpoolWithoutPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root is permitted everything")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	client := newClient(t, &collector{}, analytics.Config{Spool: filepath.Join(dir, "spool")})
	err := client.Track(&analytics.Track{Event: "e", UserId: "u"})
	require.ErrorIs(t, err, analytics.ErrSpool)
	require.ErrorIs(t, err, os.ErrPermission)
}
