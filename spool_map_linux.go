package analytics

import (
	"os"
	"syscall"
)

// madvPopulateWrite has the system make pages writable in advance, from version
// 5.14 on.
const madvPopulateWrite = 23

// mapFile maps the first bytes of a file into memory, where they can be written
// without a system call.
func mapFile(f *os.File, size int64) ([]byte, error) {
	mapped, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = syscall.Madvise(mapped, madvPopulateWrite) // else it takes time later
	return mapped, nil
}

func unmapFile(mapped []byte) error {
	if mapped == nil {
		return nil
	}
	return os.NewSyscallError("munmap", syscall.Munmap(mapped))
}
