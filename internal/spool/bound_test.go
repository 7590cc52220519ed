package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fileSizes returns the size of each file in a directory.
func fileSizes(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	sizes := make(map[string]int64, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		sizes[entry.Name()] = info.Size()
	}
	return sizes
}

// sizeOf returns the total size of the files in a directory. The directory must not change meanwhile.
func sizeOf(t testing.TB, dir string) (total int64) {
	t.Helper()
	for _, size := range fileSizes(t, dir) {
		total += size
	}
	return total
}

// leastSize returns a lower bound for the size of a directory. It lists the directory twice, because
// files change in the meantime. For each file in both lists, it adds the smaller size. File names
// are not reused.
func leastSize(t testing.TB, dir string) (total int64) {
	t.Helper()
	before := fileSizes(t, dir)
	for name, size := range fileSizes(t, dir) {
		total += min(size, before[name])
	}
	return total
}

// randomRecord returns a record with a body of 200 B to 32 KB. Most bodies are short.
func randomRecord(rnd *rand.Rand) *Record {
	n := 200 + rnd.IntN(600)
	if rnd.IntN(8) == 0 {
		n = 200 + rnd.IntN(MaxBody-200+1)
	}
	return recordOf(n)
}

func recordOf(n int) *Record {
	r := &Record{Buf: make([]byte, HeadLen+n)}
	for i := range r.Body() {
		r.Body()[i] = 'x'
	}
	return r
}

// The total size of the files never exceeds MaxBytes: neither while records are written and
// acknowledged in any order, nor after a process was killed or closed.
func TestFilesStayWithinMaxBytes(t *testing.T) {
	for _, unmapped := range []bool{false, true} {
		for seed := range uint64(2) {
			if testing.Short() && seed > 0 {
				continue
			}
			t.Run(fmt.Sprintf("unmapped %t, seed %d", unmapped, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fillWithin(t, rand.New(rand.NewPCG(seed, 26)), unmapped) })
			})
		}
	}
}

func fillWithin(t *testing.T, rnd *rand.Rand, unmapped bool) {
	dir := t.TempDir()
	maxBytes := int64(1<<20 + rnd.IntN(1<<16))
	within := func() {
		synctest.Wait() // wait until maintain has no more work
		require.LessOrEqual(t, sizeOf(t, dir), maxBytes)
	}
	full := 0
	for range 3 {
		l, _, err := openDir(dir, Options{MaxBytes: maxBytes})
		require.NoError(t, err)
		l.unmapped.Store(unmapped)
		within()
		positions, _ := readAll(t, l)
		steps, done := 600, rnd.IntN(4)
		for range steps {
			r := randomRecord(rnd)
			err := l.Append(r, time.Now())
			within()
			if err == nil {
				positions = append(positions, r.Position)
				continue
			}
			require.ErrorIs(t, err, ErrFull)
			full++
			for range rnd.IntN(len(positions)) >> (2 * done) { // this order causes many acknowledgements
				i := rnd.IntN(len(positions))
				l.Done(positions[i], 1)
				positions[i] = positions[len(positions)-1]
				positions = positions[:len(positions)-1]
			}
			within()
			time.Sleep(2 * saveEvery)
			within()
		}
		if rnd.IntN(2) == 0 {
			kill(l)
		} else {
			closeLog(l)
		}
		within()
	}
	require.Greater(t, full, 10)
}

// Neither the total size of the files nor the count of the log exceeds MaxBytes while many goroutines
// write records and acknowledge some of them.
func TestFilesStayWithinMaxBytesInAStorm(t *testing.T) {
	for _, unmapped := range []bool{false, true} {
		t.Run(fmt.Sprint("unmapped ", unmapped), func(t *testing.T) {
			const maxBytes = 4 << 20
			dir := t.TempDir()
			for life := range uint64(3) {
				l, _, err := openDir(dir, Options{MaxBytes: maxBytes})
				require.NoError(t, err)
				l.unmapped.Store(unmapped)
				l.checkUsage(t, maxBytes)
				storm(t, l, life, maxBytes)
				require.LessOrEqual(t, sizeOf(t, dir), int64(maxBytes))
				kill(l)
				require.LessOrEqual(t, sizeOf(t, dir), int64(maxBytes))
			}
		})
	}
}

func storm(t *testing.T, l lockedLog, life uint64, maxBytes int64) {
	var callers sync.WaitGroup
	var full, ended atomic.Int64
	for g := range uint64(8) {
		callers.Go(func() {
			defer ended.Add(1)
			rnd := rand.New(rand.NewPCG(life, g))
			var mine []Position
			for range 600 {
				r := randomRecord(rnd)
				switch err := l.Append(r, time.Now()); {
				case err == nil:
					mine = append(mine, r.Position)
				case errors.Is(err, ErrFull):
					full.Add(1)
					for _, p := range mine[:len(mine)/(1+int(life))] {
						l.Done(p, 1)
					}
					mine = mine[len(mine)/(1+int(life)):]
				default:
					t.Error(err)
				}
			}
		})
	}
	for ended.Load() < 8 {
		if !assertWithin(t, l.dir, maxBytes) {
			break
		}
	}
	callers.Wait()
	require.Positive(t, full.Load())
}

func assertWithin(t *testing.T, dir string, maxBytes int64) bool {
	size := leastSize(t, dir)
	if size > maxBytes {
		t.Errorf("the files take %d bytes of %d", size, maxBytes)
	}
	return size <= maxBytes
}

// Records can use at least 98 percent of MaxBytes.
func TestRoomForRecords(t *testing.T) {
	for _, unmapped := range []bool{false, true} {
		for _, maxBytes := range []int64{1 << 20, 4 << 20} {
			for _, n := range []int{100, 300, 1000, 4000, 17_000, MaxBody} {
				t.Run(fmt.Sprintf("unmapped %t, %d bytes, records of %d", unmapped, maxBytes, n), func(t *testing.T) {
					l := open(t, t.TempDir(), Options{MaxBytes: maxBytes})
					l.unmapped.Store(unmapped)
					var room int64
					now := time.Now() // the time is constant, so that the log maps files
					for r := recordOf(n); l.Append(r, now) == nil; {
						room += int64(len(r.Buf))
					}
					for r := recordOf(100); l.Append(r, now) == nil; { // append until the log is full
						room += int64(len(r.Buf))
					}
					require.Equal(t, !unmapped, l.mapped.Load() > 0)
					require.GreaterOrEqual(t, room, maxBytes*98/100, "%.2f %% of %d bytes", 100*float64(room)/float64(maxBytes), maxBytes)
					require.LessOrEqual(t, sizeOf(t, l.dir), maxBytes)
				})
			}
		}
	}
}
