package analytics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
)

// segmentFile is a file that calls are written to.
//
// That is a system call for each, until the file has been filled and its calls
// have ended. Then the spool keeps it for a segment to come, mapped into memory:
// calls are stored there, which survives the process as well, and costs a tenth.
type segmentFile struct {
	*os.File
	path   string
	mapped []byte        // its first bytes; nil if they are not in memory
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
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errVanished, r)
		}
	}()
	copy(dst, src)
	return nil
}

// mapFirst maps the first bytes of the file into memory. There is room on the
// disk for them then.
func (f *segmentFile) mapFirst(size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if missing := size - info.Size(); missing > 0 {
		if _, err = f.WriteAt(make([]byte, missing), info.Size()); err != nil {
			return err
		}
	}
	if f.mapped, err = mapFile(f.File, size); err == nil {
		f.count.Add(1)
	}
	return err
}

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
func (f *segmentFile) drop() error { return errors.Join(f.close(), os.Remove(f.path)) }

// create makes the file of a new segment, of a spare if it is given one. The
// directory, if it was removed, is made again; the lock is ours then only if it
// is taken again.
func (s *spool) create(g *spoolSegment, spare *segmentFile) (*segmentFile, error) {
	if !sameFile(s.lock, filepath.Join(s.dir, lockName)) {
		lock, err := lockDir(s.dir)
		if err != nil {
			return nil, err
		}
		_ = s.lock.Close()
		s.lock = lock
	}
	head := spoolRecord{kindHead, g.edition, 0, s.headBody()}
	if spare != nil {
		// It has the head before it has the name: the calls in it, which have
		// ended, are none of the new segment then.
		head.index = 1
		err := spare.write(appendRecord(nil, head), 0)
		if err == nil {
			err = spare.rename(s.path(g))
		}
		if err == nil {
			return spare, nil
		}
		s.log.debugf("spool: %v", errors.Join(err, spare.drop()))
	}
	head.index = 0
	f, err := os.OpenFile(s.path(g), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	file := &segmentFile{File: f, path: s.path(g), count: &s.mapped}
	err = file.write(appendRecord(nil, head), 0)
	if err == nil && s.fsync {
		err = syncDir(s.dir)
	}
	if err != nil {
		return nil, errors.Join(err, file.drop())
	}
	return file, nil
}
