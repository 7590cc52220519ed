package spool

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
	// busyTime: the files of the next segments are mapped if a segment is full
	// within that time.
	busyTime = time.Second
	// maxMapped is the largest number of mapped files, and maxSpares that of
	// mapped files kept for later segments.
	maxMapped = 64
	maxSpares = 4
)

// segmentFile is the file of a segment. It may be mapped into memory, and is then
// used for one segment after another: blocks on the disk and pages in the cache of
// the system are most of the cost of a write.
type segmentFile struct {
	*os.File
	path   string
	size   int64         // bytes when a segment begins
	mapped []byte        // the start of the file, or all of it; nil if it is not mapped
	count  *atomic.Int32 // of the files that are mapped
}

// write writes data so that it survives the process.
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

// store copies src to memory that a file is mapped into. It returns an error when
// the memory faults, because another program truncated the file or the disk fails.
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

// isFaultIn reports whether a panic is a fault of a write to memory. Some processors
// report only the page of the address.
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

// mapFirst makes the file size bytes long, so that the disk has room for it, and
// maps it into memory.
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

// zeros is what files are filled with. It takes no memory, since it is never
// written to.
var zeros [1 << 20]byte

// unmap unmaps the file, if it is mapped.
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

// create makes the file of a new segment from a spare, or a new file, which is
// mapped if size is not zero and that is possible. If the directory was removed, it
// is made again and locked again.
func (l *Log) create(g *segment, spare *segmentFile, size int64) (*segmentFile, error) {
	if !sameFile(l.lock, filepath.Join(l.dir, lockName)) {
		lock, err := lockDir(l.dir)
		if err != nil {
			return nil, errors.Join(err, spare.drop())
		}
		_ = l.lock.Close()
		l.lock = lock
	}
	if spare != nil {
		if l.rename(spare, g) == nil {
			return spare, nil
		}
		_ = spare.drop()
	}
	if size > 0 && !l.opts.Sync && !l.unmapped.Load() {
		if file, err := l.createFile(g, size); err == nil {
			return file, nil
		}
	}
	return l.createFile(g, 0)
}

// rename makes a spare the file of a segment. The head is written before the
// file has its name: the other records in it are of an earlier generation.
func (l *Log) rename(spare *segmentFile, g *segment) error {
	if err := spare.write(l.head(g, true), 0); err != nil {
		return err
	}
	return spare.rename(l.path(g))
}

// createFile makes a new file, with that many bytes mapped.
func (l *Log) createFile(g *segment, mapped int64) (*segmentFile, error) {
	f, err := os.OpenFile(l.path(g), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	file := &segmentFile{File: f, path: l.path(g), size: int64(headLen), count: &l.mapped}
	err = file.write(l.head(g, mapped > 0), 0)
	if err == nil && mapped > 0 {
		err = file.mapFirst(mapped)
		l.noteMapping(err)
	}
	if err == nil && l.opts.Sync {
		err = syncDir(l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.drop())
	}
	return file, nil
}

// noteMapping stops the mapping of files when err says that the file system cannot.
func (l *Log) noteMapping(err error) {
	if errors.Is(err, errMapping) {
		l.unmapped.Store(true)
	}
}

// head is the first record of a segment's file. Longer says that bytes after the
// last record have no meaning.
func (l *Log) head(g *segment, longer bool) []byte {
	r := record{kind: kindHead, generation: g.generation, body: l.headBody()}
	if longer {
		r.index = 1
	}
	return appendRecord(nil, r)
}
