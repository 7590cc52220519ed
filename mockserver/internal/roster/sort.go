package roster

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	// DefaultMemory is the default buffer size of Sort in bytes.
	DefaultMemory = 4 << 20
	// entryOverhead is the approximate memory of an entry in addition to its bytes.
	entryOverhead = 56
	// mergeMemory is the total size of the read buffers. minBuffer is the minimum size of each.
	mergeMemory = 1 << 20
	minBuffer   = 512
)

// Sort sorts entries. If a user has several entries, only the last one remains. Sort keeps up to
// memory bytes in memory, by default DefaultMemory. It writes the rest to a temporary file in dir,
// by default os.TempDir, which only its owner can read. Call Close to remove the file.
func Sort(entries Seq, dir string, memory int) (*Sorted, error) {
	if memory <= 0 {
		memory = DefaultMemory
	}
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
	if s.file == nil {
		s.entries = lastOfEach(s.entries)
		return s, nil
	}
	if err := s.spill(dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// A Sorted is a list sorted by Sort.
type Sorted struct {
	entries []Entry // all entries if they fit into memory
	file    *os.File
	size    int64
	runs    []run // in input order
}

// A run is a sorted part of the file.
type run struct{ start, end int64 }

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
	s.entries = lastOfEach(s.entries)
	w := bufio.NewWriterSize(s.file, 64<<10)
	r := run{start: s.size, end: s.size}
	var encoded []byte
	for _, e := range s.entries {
		encoded = appendValue(appendBytes(encoded[:0], e.User), e.Value)
		n, _ := w.Write(encoded) // Flush returns the error
		r.end += int64(n)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("roster: writing a long list to %s: %w", s.file.Name(), err)
	}
	s.size = r.end
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
	return func(yield func(Entry, error) bool) {
		if len(s.runs) == 0 {
			for _, e := range s.entries {
				if !yield(e, nil) {
					return
				}
			}
			return
		}
		s.merge(yield)
	}
}

// merge merges all runs.
func (s *Sorted) merge(yield func(Entry, error) bool) {
	var runs mergeHeap
	buffer := max(minBuffer, mergeMemory/len(s.runs))
	for i, r := range s.runs {
		in := bufio.NewReaderSize(io.NewSectionReader(s.file, r.start, r.end-r.start), buffer)
		run := &mergeRun{order: i, in: in}
		if err := run.next(); err != nil {
			yield(Entry{}, err)
			return
		}
		runs = append(runs, run)
	}
	heap.Init(&runs)
	for len(runs) > 0 {
		e := runs[0].Entry
		switch err := runs[0].next(); err {
		case nil:
			heap.Fix(&runs, 0)
		case io.EOF:
			heap.Pop(&runs)
		default:
			yield(Entry{}, err)
			return
		}
		if len(runs) > 0 && runs[0].User == e.User {
			continue // a later run has the same user
		}
		if !yield(e, nil) {
			return
		}
	}
}

// A mergeRun points to an entry of a run.
type mergeRun struct {
	Entry
	order int
	in    *bufio.Reader
}

// next reads the next entry. It returns io.EOF at the end of the run.
func (r *mergeRun) next() error {
	if _, err := r.in.Peek(1); err != nil {
		return err
	}
	user, err := r.bytes(0)
	if err == nil {
		r.User = string(user)
		r.Value, err = r.bytes(1)
	}
	if err != nil {
		return fmt.Errorf("roster: reading a long list: %w", err)
	}
	return nil
}

// bytes reads a length, subtracts more from it, and reads that many bytes. It returns nil if the
// length is smaller than more.
func (r *mergeRun) bytes(more uint64) ([]byte, error) {
	size, err := binary.ReadUvarint(r.in)
	if err != nil || size < more {
		return nil, err
	}
	b := make([]byte, size-more)
	_, err = io.ReadFull(r.in, b)
	return b, err
}

// mergeHeap implements heap.Interface, ordered by user and then by run.
type mergeHeap []*mergeRun

func (h mergeHeap) Len() int { return len(h) }
func (h mergeHeap) Less(i, j int) bool {
	if h[i].User != h[j].User {
		return h[i].User < h[j].User
	}
	return h[i].order < h[j].order
}
func (h mergeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *mergeHeap) Push(r any)   { *h = append(*h, r.(*mergeRun)) }
func (h *mergeHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}
