package analytics

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".calls"
	spareSuffix   = ".spare"
)

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

func segmentNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 62) // more can follow than will
	return number, err == nil && segmentName(number) == name
}

// openSpool takes the directory, and takes stock of what is in it. A segment
// that was sealed is not read for that.
func (p *pipeline) openSpool() error {
	dir, err := filepath.Abs(p.spoolDir) // the program may change its directory later
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSpool, err)
	}
	s := &spool{
		dir:         dir,
		max:         p.spoolMax - 2*MaxCallBytes, // what a full file is not filled with
		segmentSize: min(p.spoolMax/32, 1<<20),
		refill:      min(p.maxBytes/2, maxSegment/2),
		fsync:       p.spoolSync,
		source:      sourceOf(p.writeKey),
		log:         p.log,
		wake:        make(chan struct{}, 1),
		stop:        make(chan struct{}),
		kept:        make(chan struct{}),
	}
	s.unmapped.Store(noMapping)
	s.full = fmt.Errorf("%w: %s holds as much as Config.SpoolMaxBytes allows, %d bytes", ErrQueueFull, s.dir, p.spoolMax)
	if s.lock, err = lockDir(s.dir); err != nil {
		return s.errorf(err)
	}
	found, err := s.takeStock()
	if err != nil {
		_ = s.lock.Close()
		return s.errorf(err)
	}
	p.mu.Lock()
	defer p.unlock()
	p.spool = s
	found.report(p)
	for _, g := range s.segments {
		g.seq = p.seq + 1
		p.seq += uint64(g.calls)
		p.stats.Recovered += int64(g.calls - g.ended)
	}
	p.stats.Accepted = p.stats.Recovered
	if len(s.segments) > 0 {
		s.state = reading
		s.cursor.segment = s.segments[0]
		if s.log.verbose {
			p.note("spool: %s has %s of an earlier process", s.dir, countCalls(p.stats.Recovered))
		}
	}
	s.poke()
	return nil
}

// stocktaking is what is to be said of a directory that is opened.
type stocktaking struct {
	foreign int     // files of another source
	strange []error // why files are not what they seem to be
}

// report says it, to the log. The caller holds mu.
func (t *stocktaking) report(p *pipeline) {
	if t.foreign > 0 {
		p.note("spool: %s has %d files of another write key, or of a newer version: they are left there", p.spool.dir, t.foreign)
	}
	if n := len(t.strange); n > 0 {
		p.note("spool: %s has %d files that are not as this client leaves them, the first of which: %v", p.spool.dir, n, t.strange[0])
	}
}

// takeStock finds the segments in the directory. What is not of this source, or
// not a segment at all, is left alone and takes no room.
func (s *spool) takeStock() (found stocktaking, err error) {
	entries, err := os.ReadDir(s.dir) // by name, so oldest first
	if err != nil {
		return found, err
	}
	for _, entry := range entries {
		number, ok := segmentNumber(entry.Name())
		if !ok {
			if strings.HasSuffix(entry.Name(), spareSuffix) && entry.Type().IsRegular() {
				_ = os.Remove(filepath.Join(s.dir, entry.Name()))
			}
			continue
		}
		g := &spoolSegment{number: number, edition: uint32(number), sealed: true, old: true}
		s.number = max(s.number, number)
		ours, err := s.stock(g)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			found.strange = append(found.strange, err)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err != nil && !errors.Is(err, errTooLong):
			continue
		case !ours:
			found.foreign++
			continue
		}
		g.space = g.size
		s.disk += g.space
		if g.ended == g.calls {
			s.remove(g)
		} else {
			s.segments = append(s.segments, g)
		}
	}
	return found, nil
}

// errTooLong is the error of a file that is longer than a segment can be. What it
// starts with is read all the same.
var errTooLong = errors.New("longer than any segment")

// openRegular opens a file that is there. It does not open a directory, a device,
// a link, or a pipe, which would have it wait.
func openRegular(path string, flag int) (*os.File, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, flag, 0)
	return f, info, err
}

// stock fills in what is known of a segment, and reports whether it is of this
// source.
func (s *spool) stock(g *spoolSegment) (ours bool, err error) {
	f, info, err := openRegular(s.path(g), os.O_RDWR)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g.size = min(info.Size(), maxFile)
	head := make([]byte, min(int64(headLen), g.size))
	if _, err = f.ReadAt(head, 0); err != nil {
		return false, err
	}
	// A file whose head is damaged is taken for ours, as most are.
	if r, size := readRecord(head); size > 0 {
		if r.kind != kindHead || string(r.body) != string(s.headBody()) {
			return false, nil
		}
		g.edition = r.edition
	}
	if tail := make([]byte, endsLen); g.size >= endsLen && g.size == info.Size() {
		if _, err = f.ReadAt(tail, g.size-endsLen); err != nil {
			return false, err
		}
		if r, size := readRecord(tail); size > 0 && r.edition == g.edition {
			if t, ok := r.tally(); ok {
				g.calls, g.ended, g.saved = t.calls, t.ended, t.ended
				return true, nil
			}
		}
	}
	if err = s.count(g, f); err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s is %d bytes long, %w", s.path(g), info.Size(), errTooLong)
	}
	return true, err
}

// count reads a segment that was not sealed, and seals it.
func (s *spool) count(g *spoolSegment, f *os.File) error {
	data := make([]byte, g.size)
	if _, err := f.ReadAt(data, 0); err != nil && g.size > 0 {
		return err
	}
	c := readContents(data, g.edition, nil)
	c.judgeEnd(data, g.edition)
	calls, missing := c.left(span{0, c.upTo})
	g.calls = c.upTo
	g.ended = g.calls - uint32(len(calls))
	for _, m := range missing {
		g.ended -= m.len()
	}
	g.saved = g.ended
	// What is behind the calls is of another edition, or is none of ours.
	if (c.damaged == 0 || len(data) == maxFile) && f.Truncate(int64(c.end)) == nil {
		g.size = int64(c.end)
	}
	seal := appendEnds(nil, g.edition, 0, tally{0, g.calls, g.ended})
	if _, err := f.WriteAt(seal, g.size); err == nil {
		g.size += int64(len(seal))
	} // else the next one to open it counts as well
	return nil
}

func (s *spool) headBody() []byte { return append([]byte{spoolVersion}, s.source[:]...) }

// syncDir has a directory's list of files survive the loss of power.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // where a directory cannot be synced
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
