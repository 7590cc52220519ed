package disk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

func newDevice(t *testing.T, seed uint64) *disk.Device {
	t.Helper()
	medium, err := os.Create(filepath.Join(t.TempDir(), "medium"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = medium.Close() })
	require.NoError(t, medium.Truncate(1<<20))
	return disk.NewDevice(medium, 1<<20, seed)
}

func put(t *testing.T, d *disk.Device, at int64, value byte, n int) {
	t.Helper()
	_, err := d.WriteAt(bytes.Repeat([]byte{value}, n), at)
	require.NoError(t, err)
}

func get(t *testing.T, d *disk.Device, at int64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, err := d.ReadAt(b, at)
	require.NoError(t, err)
	return b
}

func TestDeviceReadsLatestWrite(t *testing.T) {
	d := newDevice(t, 1)
	put(t, d, 1000, 'a', 9000)
	require.NoError(t, d.Sync())
	put(t, d, 5000, 'b', 100)
	assert.Equal(t, append(bytes.Repeat([]byte{'a'}, 4000), bytes.Repeat([]byte{'b'}, 100)...), get(t, d, 1000, 4100))
	assert.Equal(t, disk.Stats{Reads: 1, Writes: 2, Syncs: 1, Unflushed: 1}, d.Stats())
}

func TestDeviceCutKeepsFlushedData(t *testing.T) {
	d := newDevice(t, 1)
	put(t, d, 0, 'a', 4096)
	require.NoError(t, d.Sync())
	put(t, d, 512, 'b', 4096)
	require.NoError(t, d.Cut(disk.LoseAll))
	assert.Equal(t, append(bytes.Repeat([]byte{'a'}, 4096), make([]byte, 512)...), get(t, d, 0, 4608))
	put(t, d, 512, 'c', 512)
	require.NoError(t, d.Cut(disk.LoseNone))
	assert.Equal(t, bytes.Repeat([]byte{'c'}, 512), get(t, d, 512, 512))
}

// sectorsAfterCut makes 64 writes and cuts the power. It returns whether each of the sectors was kept.
func sectorsAfterCut(t *testing.T, seed uint64) (kept []bool) {
	t.Helper()
	d := newDevice(t, seed)
	for i := range int64(64) {
		put(t, d, i*8192, 'a', 8192)
	}
	require.NoError(t, d.Cut(disk.LoseSome))
	b := get(t, d, 0, 64*8192)
	for at := 0; at < len(b); at += 512 {
		whole := bytes.Equal(b[at:at+512], bytes.Repeat(b[at:at+1], 512))
		require.True(t, whole, "a sector was written in part")
		kept = append(kept, b[at] == 'a')
	}
	return kept
}

func TestDeviceCutRepeatsBySeed(t *testing.T) {
	first := sectorsAfterCut(t, 7)
	assert.Contains(t, first, true)
	assert.Contains(t, first, false)
	assert.Equal(t, first, sectorsAfterCut(t, 7))
	assert.NotEqual(t, first, sectorsAfterCut(t, 8))
}

func TestDeviceFails(t *testing.T) {
	d := newDevice(t, 1)
	d.Fail(disk.Fault{Op: disk.Write, Ranges: []disk.Range{{From: 4096, To: 8192}}, Skip: 1, Count: 2})
	for i, want := range []error{nil, syscall.EIO, syscall.EIO, nil} {
		put(t, d, 0, 'a', 4096) // data in another page
		_, err := d.WriteAt([]byte("b"), 8191)
		assert.ErrorIs(t, err, want, "write %d", i)
	}
	d.Fail(disk.Fault{Op: disk.Sync})
	assert.ErrorIs(t, d.Sync(), syscall.EIO)
	assert.ErrorIs(t, d.Sync(), syscall.EIO)
	d.Heal()
	assert.NoError(t, d.Sync())
	assert.EqualValues(t, 4, d.Stats().Failed)
}

func TestDeviceTearsWrite(t *testing.T) {
	d := newDevice(t, 3)
	d.Fail(disk.Fault{Op: disk.Write, Count: 1, Tear: true})
	_, err := d.WriteAt(bytes.Repeat([]byte{'a'}, 64*512), 0)
	assert.ErrorIs(t, err, syscall.EIO)
	n := bytes.Count(get(t, d, 0, 64*512), []byte{'a'})
	assert.Zero(t, n%512)
	assert.Greater(t, n, 0)
	assert.Less(t, n, 64*512)
}
