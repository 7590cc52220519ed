package analytics

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	// busyTime is how long a segment takes to fill, at most, for the next ones
	// to be mapped.
	busyTime = time.Second
	// maxMapped is how many files are mapped at most, and maxSpares how many of
	// them wait for a segment.
	maxMapped = 64
	maxSpares = 4
)

// noMapping is set by tests, to see that all is the same without.
var noMapping = false

// segmentFile is a file that calls are written to.
//
// That is a system call for each, until there are many: then the files of the
// segments to come are mapped into memory. To store a call there costs a tenth,
// and it survives the process as well. Such a file is used again and again, as
// the calls in it have ended: its place on the disk and in the system's cache is
// most of what a write costs.
type segmentFile struct {
	*os.File
	path   string
	size   int64         // bytes, as a segment begins
	mapped []byte        // the file, or how it starts; nil if it is not mapped
	count  *atomic.Int32 // of the files that are mapped
}

// write has the system take data. It outlives the process from then on.
func (f *segmentFile) write(data []byte, at int64) error {
	end := at + int64(len(data))
	if end > int64(len(f.mapped)) {
		_, err := f.WriteAt(data, at)
		return err
	}
	err := store(f.mapped[at:end], data)
	if err != nil {
		err = errors.Join(err, f.unmap())
	}
	return err
}

// store copies src to memory that a file is mapped into. Where there is no file
// any more, since another program has cut it short, or none that can be written,
// the processor says so by a fault, and store by an error.
func store(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); isFaultIn(dst, r) {
			err = errVanished
		} else if r != nil {
			panic(r)
		}
	}()
	copy(dst, src)
	return nil
}

// isFaultIn reports whether a panic says that memory could not be written. Some
// processors tell no more of the address than its page.
func isFaultIn(memory []byte, panicked interface{}) bool {
	fault, ok := panicked.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		return false
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	page := uintptr(os.Getpagesize())
	return fault.Addr() >= first-first%page && fault.Addr() < first+uintptr(len(memory))
}

// mapFirst makes the file that many bytes long and maps it into memory. There is
// room on the disk for it then.
func (f *segmentFile) mapFirst(size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() > size {
		err = f.Truncate(size)
	}
	if err != nil {
		return err
	}
	for at := info.Size(); at < size; at += int64(len(zeros)) {
		if _, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	if f.mapped, err = mapFile(f.File, int(size)); err != nil {
		return err
	}
	f.count.Add(1)
	f.size = size
	return nil
}

// zeros is what a file is filled with, in large pieces, which cost the least. It
// takes no memory, since nothing is ever written to it.
var zeros [1 << 20]byte

func (f *segmentFile) unmap() error {
	if f.mapped == nil {
		return nil
	}
	f.count.Add(-1)
	err := unmapFile(f.mapped)
	f.mapped = nil
	return err
}

func (f *segmentFile) rename(path string) error {
	err := os.Rename(f.path, path)
	if err == nil {
		f.path = path
	}
	return err
}

func (f *segmentFile) close() error { return errors.Join(f.unmap(), f.Close()) }

// drop closes and removes the file.
func (f *segmentFile) drop() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.close(), os.Remove(f.path))
}

// create makes the file of a new segment: of a spare if there is one, or else a
// new one, mapped if size is not zero and it can be. The directory, if it was
// removed, is made again; the lock is ours then only if it is taken again.
func (s *spool) create(g *spoolSegment, spare *segmentFile, size int64) (*segmentFile, error) {
	if !sameFile(s.lock, filepath.Join(s.dir, lockName)) {
		lock, err := lockDir(s.dir)
		if err != nil {
			return nil, errors.Join(err, spare.drop())
		}
		_ = s.lock.Close()
		s.lock = lock
	}
	if spare != nil {
		if s.rename(spare, g) == nil {
			return spare, nil
		}
		_ = spare.drop()
	}
	if size > 0 && !s.fsync && !s.unmapped.Load() {
		if file, err := s.createFile(g, size); err == nil {
			return file, nil
		}
	}
	return s.createFile(g, 0)
}

// rename makes a spare the file of a segment. It has the segment's head before
// it has its name: the calls in it are of another one.
func (s *spool) rename(spare *segmentFile, g *spoolSegment) error {
	if err := spare.write(s.head(g, true), 0); err != nil {
		return err
	}
	return spare.rename(s.path(g))
}

func (s *spool) createFile(g *spoolSegment, mapped int64) (*segmentFile, error) {
	f, err := os.OpenFile(s.path(g), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	file := &segmentFile{File: f, path: s.path(g), size: int64(headLen), count: &s.mapped}
	err = file.write(s.head(g, mapped > 0), 0)
	if err == nil && mapped > 0 {
		err = file.mapFirst(mapped)
		s.noteMapping(err)
	}
	if err == nil && s.fsync {
		err = syncDir(s.dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.drop())
	}
	return file, nil
}

// noteMapping takes note of a file system that cannot map files.
func (s *spool) noteMapping(err error) {
	if errors.Is(err, errMapping) {
		s.unmapped.Store(true)
	}
}

// head is the first record of a segment's file. Longer says that the file has
// bytes behind the last record, which mean nothing.
func (s *spool) head(g *spoolSegment, longer bool) []byte {
	r := spoolRecord{kind: kindHead, edition: g.edition, body: s.headBody()}
	if longer {
		r.index = 1
	}
	return appendRecord(nil, r)
}
