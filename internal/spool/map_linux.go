package spool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errMapping means that the file system cannot map files at the moment, or at all.
var errMapping = errors.New("the file cannot be mapped")

// madvPopulateWrite makes pages writable in advance. It requires Linux 5.14.
const madvPopulateWrite = 23

// mapFile maps the first bytes of a file into memory.
func mapFile(f *os.File, size int) ([]byte, error) {
	mapped, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMapping, os.NewSyscallError("mmap", err))
	}
	_ = syscall.Madvise(mapped, madvPopulateWrite) // otherwise the first write to each page faults
	return mapped, nil
}

func unmapFile(mapped []byte) error {
	return os.NewSyscallError("munmap", syscall.Munmap(mapped))
}
