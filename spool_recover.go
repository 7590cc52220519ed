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
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil
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
	foreign, err := s.takeStock()
	if err != nil {
		_ = s.lock.Close()
		return s.errorf(err)
	}
	p.mu.Lock()
	defer p.unlock()
	p.spool = s
	if foreign > 0 {
		p.note("spool: %s has %d files of another write key, or of a newer version: they are left there", s.dir, foreign)
	}
	for _, g := range s.segments {
		g.seq = p.seq + 1
		p.seq += uint64(g.calls)
		p.stats.Recovered += int64(g.calls - g.ended)
	}
	p.stats.Accepted = p.stats.Recovered
	if s.behind = len(s.segments) > 0; s.behind {
		s.cursor.segment = s.segments[0]
		if s.log.verbose {
			p.note("spool: %s has %s of an earlier process", s.dir, countCalls(p.stats.Recovered))
		}
	}
	s.poke()
	return nil
}

// takeStock finds the segments in the directory. It leaves alone, and counts,
// those that are not of this source.
func (s *spool) takeStock() (foreign int, err error) {
	entries, err := os.ReadDir(s.dir) // by name, so oldest first
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		number, ok := segmentNumber(entry.Name())
		if !ok {
			if strings.HasSuffix(entry.Name(), spareSuffix) {
				_ = os.Remove(filepath.Join(s.dir, entry.Name()))
			}
			continue
		}
		g := &spoolSegment{number: number, edition: uint32(number), sealed: true, old: true}
		s.number = max(s.number, number)
		ours, err := s.stock(g)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return 0, err
		case !ours:
			foreign++
		case g.ended == g.calls:
			s.done = append(s.done, g)
			continue
		default:
			s.segments = append(s.segments, g)
		}
		g.space = g.size
		s.disk += g.space
	}
	return foreign, nil
}

// stock fills in what is known of a segment, and reports whether it is of this
// source.
func (s *spool) stock(g *spoolSegment) (ours bool, err error) {
	f, err := os.OpenFile(s.path(g), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	g.size = info.Size()
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
	if tail := make([]byte, endsLen); g.size >= endsLen {
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
	return true, s.count(g, f)
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
	if c.damaged == 0 && f.Truncate(int64(c.end)) == nil { // what it has of another edition
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
