//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package offheap

import "syscall"

// newMemory returns memory that is not on the heap, or nil if there is none.
func newMemory(size int) []byte {
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return memory
}

// freeMemory gives memory back to the system.
func freeMemory(memory []byte) {
	_ = syscall.Munmap(memory) // fails only for what newMemory did not return
}
