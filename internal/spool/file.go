package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// segmentFile is the file of a segment. A mapped file is reused for other segments, because
// allocating disk blocks and cache pages takes most of the time of a write.
type segmentFile struct {
	*os.File
	path   string
	size   int64         // the file size at the start of the segment, in bytes
	mapped []byte        // the mapped part of the file, from its start; nil if the file is not mapped
	count  *atomic.Int32 // number of mapped files
}

// errVanished means that the file of the active segment was removed or truncated. New records in it
// do not survive the process. Older records are not lost while the process runs.
var errVanished = errors.New("the file, or a part of it, was removed while calls were written to it")

// write writes data at the given offset, so that the data survives if the process is killed.
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

// store copies src to mapped memory. If the memory faults, it returns an error. A fault means that
// another program truncated the file or that the disk failed.
func store(dst, src []byte) (err error) {
	faults, stored := debug.SetPanicOnFault(true), false
	defer func() {
		debug.SetPanicOnFault(faults)
		if stored {
			return
		}
		r := recover()
		if !isFaultIn(dst, r) {
			panic(r)
		}
		err = errVanished
	}()
	copy(dst, src)
	stored = true
	return nil
}

// isFaultIn reports whether a panic is a memory fault in the given memory. Some processors
// report only the page of the address, so the whole page counts.
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

// mapFirst extends the file to size bytes, which reserves disk space, and maps these bytes into
// memory.
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

// zeros is the initial content of mapped files. It is never written to, so it uses no physical
// memory.
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

// openRegular opens an existing regular file. It rejects directories, devices, links and
// pipes. Opening a pipe would block.
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

// syncDir syncs a directory, so that its entries survive a power loss.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // Windows cannot sync a directory
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
