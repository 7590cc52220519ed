package spool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errMapping is the error if the file system cannot map a file.
var errMapping = errors.New("the file cannot be mapped")

// madvPopulateWrite is the advice to make pages writable in advance. It requires Linux 5.14.
const madvPopulateWrite = 23

// mapFile maps the first size bytes of a file into memory.
func mapFile(f *os.File, size int) ([]byte, error) {
	mapped, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMapping, os.NewSyscallError("mmap", err))
	}
	_ = syscall.Madvise(mapped, madvPopulateWrite) // without this, the first write to each page causes a page fault
	return mapped, nil
}

func unmapFile(mapped []byte) error {
	return os.NewSyscallError("munmap", syscall.Munmap(mapped))
}
