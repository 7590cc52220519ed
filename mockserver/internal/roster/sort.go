package roster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
)

const (
	// SortMemory is the maximum size of the entries that Sort keeps in memory, in bytes.
	SortMemory = 4 << 20
	// entryOverhead is the approximate memory of an entry in addition to its bytes.
	entryOverhead = 56
	// runSegment is the size of the segments in the temporary file. All reads one segment of each
	// run at the same time.
	runSegment = 8 << 10
)

// Sort sorts entries. If a user has several entries, only the last one remains. Sort keeps up to
// SortMemory bytes in memory. It writes the rest to a temporary file in dir, by default os.TempDir,
// which only its owner can read. Call Close to remove the file.
func Sort(entries Seq, dir string) (*Sorted, error) { return sortIn(entries, dir, SortMemory) }

func sortIn(entries Seq, dir string, memory int) (*Sorted, error) {
	s := &Sorted{}
	size := 0
	for e, err := range entries {
		if err == nil && size >= memory {
			err = s.spill(dir)
			size = 0
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.entries = append(s.entries, e)
		size += len(e.User) + len(e.Value) + entryOverhead
	}
	s.entries = lastOfEach(s.entries)
	return s, nil
}

// A Sorted is a list sorted by Sort.
type Sorted struct {
	entries []Entry // the last entries
	file    *os.File
	size    int64
	runs    []run // sorted parts of the file, in input order
}

// A run contains the offsets of its segments in the file, and the offset of its end.
type run []int64

// lastOfEach sorts entries and keeps the last one of each user.
func lastOfEach(entries []Entry) []Entry {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.User, b.User) })
	kept := 0
	for i := range entries {
		if i+1 == len(entries) || entries[i+1].User != entries[i].User {
			entries[kept] = entries[i]
			kept++
		}
	}
	clear(entries[kept:])
	return entries[:kept]
}

// spill writes the entries in memory to the file as a run.
func (s *Sorted) spill(dir string) error {
	if s.file == nil {
		f, err := os.CreateTemp(dir, "roster-*")
		if err != nil {
			return fmt.Errorf("roster: could not create a temporary file for a long list: %w", err)
		}
		_ = os.Remove(f.Name()) // if the system cannot remove open files, Close removes the file
		s.file = f
	}
	r := run{s.size}
	_, _, err := writeSegments(values(lastOfEach(s.entries)), runSegment, func(_ int, segment []byte) error {
		n, err := s.file.Write(segment)
		s.size += int64(n)
		r = append(r, s.size)
		return err
	})
	if err != nil {
		return fmt.Errorf("roster: writing a long list to %s: %w", s.file.Name(), err)
	}
	s.runs = append(s.runs, r)
	clear(s.entries)
	s.entries = s.entries[:0]
	return nil
}

// Close removes the temporary file. It may be called again.
func (s *Sorted) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	s.file = nil
	return err
}

// All yields the sorted entries. It may be called again.
func (s *Sorted) All() Seq {
	var lists []Seq
	for _, r := range s.runs {
		lists = append(lists, Read(len(r)-1, func(n int) ([]byte, error) {
			segment := make([]byte, r[n+1]-r[n])
			_, err := s.file.ReadAt(segment, r[n])
			return segment, err
		}))
	}
	return merged(append(lists, values(s.entries)))
}

// merged yields the entries of sorted lists. If several lists contain a user, it yields the entry of
// the last one.
func merged(lists []Seq) Seq {
	if len(lists) == 1 {
		return lists[0]
	}
	older, newer := merged(lists[:len(lists)/2]), merged(lists[len(lists)/2:])
	return func(yield func(Entry, error) bool) {
		for p, err := range pairs(older, newer) {
			value := p.newer
			if !p.inNewer {
				value = p.older
			}
			if !yield(Entry{p.user, value}, err) {
				return
			}
		}
	}
}
