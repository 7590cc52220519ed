package spool

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// open opens a log and closes it at the end of the test.
func open(t testing.TB, dir string, opts Options) lockedLog {
	t.Helper()
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 30
	}
	l, _, err := openDir(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { closeLog(l) })
	return l
}

// closeLog closes a log unless it is already closed.
func closeLog(l lockedLog) {
	if !l.stopped {
		l.Stop()
		l.Close()
	}
}

func appendTo(l lockedLog, body string) error {
	return l.Append(&Record{Buf: append(make([]byte, HeadLen), body...)}, time.Now())
}

// kill releases the lock and leaves the directory in the state after a kill: the log does not write
// its acknowledgements.
func kill(l lockedLog) {
	close(l.stop)
	<-l.done
	l.stopped = true
	for _, g := range l.segments {
		if g.file != nil {
			_ = g.closeFile()
		}
	}
	for _, spare := range l.spares {
		_ = spare.close()
	}
	_ = l.lock.Close()
}

// readAll reads all records that are not acknowledged.
func readAll(t testing.TB, l lockedLog) (positions []Position, bodies []string) {
	t.Helper()
	for page := new(Page); ; {
		require.NoError(t, l.Read(page))
		require.NoError(t, page.Err)
		if page.Len() == 0 {
			return positions, bodies
		}
		for i := range page.Len() {
			position, body := page.At(i)
			require.Less(t, position, page.Next)
			positions, bodies = append(positions, position), append(bodies, string(body))
		}
	}
}

func TestAppendReadDone(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for i := range 10 {
		require.NoError(t, appendTo(l, fmt.Sprint("record ", i)))
	}
	first := l.last - 9
	l.Done(first, 3)
	l.Done(first+5, 1)
	closeLog(l)
	require.ErrorIs(t, appendTo(l, "late"), ErrClosed)

	l, found, err := openDir(dir, Options{MaxBytes: 1 << 30})
	require.NoError(t, err)
	defer closeLog(l)
	require.Equal(t, int64(6), found.Records)
	positions, bodies := readAll(t, l)
	require.Equal(t, []string{"record 3", "record 4", "record 6", "record 7", "record 8", "record 9"}, bodies)
	require.Equal(t, found.Last, positions[5])
	require.Equal(t, positions[0]+6, positions[5], "positions of one segment are consecutive")
	for _, p := range positions {
		l.Done(p, 1)
	}
	require.Eventually(t, func() bool { return l.Usage() == 0 }, time.Minute, time.Millisecond)
}

// Read starts at the record that was passed to ReadFrom, and also returns records appended later.
func TestReadFrom(t *testing.T) {
	var appended []string
	var l lockedLog
	l = open(t, t.TempDir(), Options{MaxBytes: 1 << 20, Appended: func(records []*Record, _ time.Time) {
		for _, r := range records {
			appended = append(appended, string(r.Body()))
			if len(appended) == 301 {
				l.Log.ReadFrom(r)
			}
		}
	}})
	for i := range 500 { // the records fill several segments
		require.NoError(t, appendTo(l, fmt.Sprint(strings.Repeat("x", 500), i)))
	}
	_, bodies := readAll(t, l)
	require.Equal(t, appended[300:], bodies)
	require.NoError(t, appendTo(l, "later"))
	_, bodies = readAll(t, l)
	require.Equal(t, []string{"later"}, bodies)
	l.ReadFrom(nil)
	require.NoError(t, appendTo(l, "not read"))
	_, bodies = readAll(t, l)
	require.Empty(t, bodies)
}

func TestRoomAndFull(t *testing.T) {
	freed := make(chan struct{}, 100)
	l := open(t, t.TempDir(), Options{MaxBytes: 1 << 20, Freed: func() { freed <- struct{}{} }})
	body := strings.Repeat("x", 30_000)
	record := &Record{Buf: append(make([]byte, HeadLen), body...)}
	n := 0
	for l.Room(record) == Enough {
		require.NoError(t, l.Append(record, time.Now()))
		n++
	}
	require.Greater(t, n, 20)
	require.Equal(t, Full, l.Room(record))
	require.ErrorIs(t, l.Append(record, time.Now()), ErrFull)
	require.LessOrEqual(t, l.Usage(), int64(1<<20))
	for _, g := range slices.Clone(l.segments)[:3] {
		l.Done(g.base, int(g.records))
	}
	for room := l.Room(record); room != Enough; room = l.Room(record) {
		require.Equal(t, Freeing, room)
		<-freed
	}
	require.NoError(t, l.Append(record, time.Now()))
}

// If the active segment's file was removed, Append writes the record to a new file, where the next
// process reads it.
func TestAppendAfterTheFileWasRemoved(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	require.NoError(t, appendTo(l, "lost"))
	require.NoError(t, os.Remove(l.path(l.active)))
	kept := &Record{Buf: append(make([]byte, HeadLen), "kept"...)}
	require.NoError(t, l.Append(kept, time.Now().Add(2*checkEvery)))
	kill(l)
	_, bodies := readAll(t, open(t, l.Dir(), Options{}))
	require.Equal(t, []string{"kept"}, bodies)
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	_, _, err := openDir(dir, Options{MaxBytes: 1 << 20})
	require.ErrorContains(t, err, "in use by")
}

// After Stop, Drained is called once, when no Append is running.
func TestStopDrains(t *testing.T) {
	drained := make(chan struct{})
	l := open(t, t.TempDir(), Options{Drained: func() { close(drained) }})
	release := l.holdFile()
	written := make(chan error, 1)
	go func() { written <- appendTo(l, "last") }()
	require.Eventually(t, l.Busy, time.Minute, time.Millisecond)
	l.Stop()
	require.ErrorIs(t, appendTo(l, "late"), ErrClosed)
	require.True(t, l.Busy())
	release()
	<-drained
	require.NoError(t, <-written)
	require.False(t, l.Busy())
	l.Close()
}

// The test runs a random sequence of processes. Each record is read, in order, until it is
// acknowledged. No other record is read.
func TestRandomLife(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 5))) })
	}
}

func randomLife(t *testing.T, rnd *rand.Rand) {
	dir := t.TempDir()
	opts := Options{MaxBytes: 1 << 20}
	unmapped := rnd.IntN(2) == 0
	left := map[string]bool{}  // unacknowledged records
	maybe := map[string]bool{} // records whose acknowledgement may not be on the disk
	for life := range 12 {
		l, found, err := openDir(dir, opts)
		require.NoError(t, err)
		l.unmapped.Store(unmapped)
		require.Empty(t, found.Strange)
		require.GreaterOrEqual(t, found.Records, int64(len(left)))
		require.LessOrEqual(t, found.Records, int64(len(left)+len(maybe)))
		positions, bodies := readAll(t, l)
		for _, body := range bodies {
			require.True(t, left[body] || maybe[body], "%q was not left", body)
			delete(left, body)
		}
		require.Empty(t, left, "records are lost")
		require.True(t, slices.IsSorted(bodies), "the order is kept")
		require.Equal(t, found.Records, int64(len(bodies)))
		for i := range rnd.IntN(2000) {
			body := fmt.Sprintf("%03d-%06d %s", life, i, strings.Repeat("x", rnd.IntN(300)))
			record := &Record{Buf: append(make([]byte, HeadLen), body...)}
			if err := l.Append(record, time.Now()); err != nil {
				require.ErrorIs(t, err, ErrFull)
				break
			}
			positions, bodies = append(positions, record.Position), append(bodies, body)
		}
		clear(maybe)
		done := rnd.IntN(3)
		for i, p := range positions {
			if done == 0 || done == 1 && rnd.IntN(2) == 0 {
				l.Done(p, 1)
				maybe[bodies[i]] = true
			} else {
				left[bodies[i]] = true
			}
		}
		if rnd.IntN(2) == 0 {
			kill(l)
		} else {
			closeLog(l)
			if !slices.ContainsFunc(l.segments, func(g *segment) bool { return len(g.acks) > 0 }) {
				clear(maybe)
			}
		}
	}
}

func TestAppendConcurrentSafe(t *testing.T) {
	var got []string
	l := open(t, t.TempDir(), Options{MaxBytes: 1 << 20, Appended: func(records []*Record, _ time.Time) {
		for _, r := range records {
			got = append(got, string(r.Body()))
		}
	}, Freed: func() {}})
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			record := new(Record)
			for i := range 1000 {
				record.Buf = fmt.Appendf(append(record.Buf[:0], make([]byte, HeadLen)...), "%d-%d", g, i)
				for l.Append(record, time.Now()) != nil {
					time.Sleep(time.Millisecond)
				}
				l.Done(record.Position, 1)
			}
		})
	}
	group.Wait()
	closeLog(l)
	require.Len(t, got, 8000)
	slices.Sort(got)
	require.Len(t, slices.Compact(got), 8000)
	files, err := filepath.Glob(filepath.Join(l.Dir(), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(l.Dir(), lockName)}, files)
	require.Zero(t, l.Usage())
}

// The log writes an acknowledgement within a short time, so that few records are read again after a
// kill.
func TestDoneIsSaved(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for i := range 3 {
		require.NoError(t, appendTo(l, fmt.Sprint(i)))
	}
	l.Done(l.last-2, 2)
	require.Eventually(t, func() bool {
		copied := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		next, found, err := openDir(copied, Options{MaxBytes: 1 << 20})
		require.NoError(t, err)
		closeLog(next)
		return found.Records == 1
	}, time.Minute, 10*time.Millisecond)
}

// Acknowledgements do not wait for the file while records are written: writers that follow each
// other would keep the background goroutine from removing files. They are saved afterwards.
func TestDoneIsSavedAfterAWrite(t *testing.T) {
	l := open(t, t.TempDir(), Options{Sync: true})
	record := &Record{Buf: append(make([]byte, HeadLen), "{}"...)}
	require.NoError(t, l.Append(record, time.Now()))
	release := l.holdFile()
	l.Done(record.Position, 1)
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		l.saveAcks()
	}()
	select {
	case <-saved:
	case <-time.After(time.Minute):
		t.Error("saveAcks waits for the file")
	}
	release()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.active.acks) == 0 && l.active.saved == 1
	}, time.Minute, time.Millisecond)
}

// Acknowledgements of a sealed segment that could not be written are written later.
func TestDoneIsSavedAfterAFailedWrite(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, Options{})
	for i := range 3 {
		require.NoError(t, appendTo(first, fmt.Sprint(i)))
	}
	closeLog(first)
	problems := make(chan Problem, 100)
	l := open(t, dir, Options{Warn: func(p Problem, _ error) { problems <- p }})
	g := l.segments[0]
	size := g.size
	require.NoError(t, os.Rename(l.path(g), l.path(g)+".away"))
	l.Done(g.base, 1)
	require.Equal(t, NotSaved, <-problems)
	require.NoError(t, os.Rename(l.path(g)+".away", l.path(g)))
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return g.size > size
	}, time.Minute, time.Millisecond)
	kill(l)
	_, bodies := readAll(t, open(t, dir, Options{}))
	require.Equal(t, []string{"1", "2"}, bodies)
}

// The same applies to a segment that could not be sealed.
func TestDoneIsSavedAfterAFailedSeal(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for i := range 3 {
		require.NoError(t, appendTo(l, fmt.Sprint(i)))
	}
	l.mu.Lock()
	l.Log.Done(l.active.base, 1)
	require.NoError(t, l.active.file.File.Close())
	l.lockFile()
	l.sealActive()
	l.unlockFile()
	l.mu.Unlock()
	closeLog(l)
	_, bodies := readAll(t, open(t, dir, Options{}))
	require.Equal(t, []string{"1", "2"}, bodies)
}

// The log reports and keeps a segment of a later version.
func TestSegmentOfAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0000000000000001.calls")
	data := appendRecord(nil, record{kind: kindHead, generation: 1, body: append([]byte{formatVersion + 1}, make([]byte, sourceLen)...)})
	require.NoError(t, os.WriteFile(path, data, 0o600))
	l, found, err := openDir(dir, Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	defer closeLog(l)
	require.Zero(t, found.Records)
	require.Len(t, found.Strange, 1)
	require.ErrorContains(t, found.Strange[0], "was written in format 2, and this version reads 1")
	require.NoError(t, appendTo(l, "a call"))
	closeLog(l)
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, left)
}

// A call at the end of a file that has the size of an acknowledgement is not taken for one.
func TestLastCallOfTheSizeOfAnAcknowledgement(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	body := strings.Repeat("c", tallyLen)
	require.NoError(t, appendTo(l, body))
	kill(l)
	l, found, err := openDir(dir, Options{MaxBytes: 1 << 20})
	require.NoError(t, err)
	defer closeLog(l)
	require.EqualValues(t, 1, found.Records)
	_, bodies := readAll(t, l)
	require.Equal(t, []string{body}, bodies)
}

// A segment that cannot be read is not a segment without calls, whose file is removed.
func TestCountReportsReadErrors(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, (&Log{}).count(&segment{size: 1}, f), io.EOF) // the file was truncated since
}
