//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package offheap

// newMemory returns memory on the heap: where a program cannot ask the system for memory
// by the standard library, a store is a way to use the same memory again.
func newMemory(size int) []byte { return make([]byte, size) }

// freeMemory leaves memory to the garbage collector.
func freeMemory([]byte) {}
