// Package offheap keeps bytes that wait, outside of the heap of the program.
//
// The garbage collector lets a heap grow to twice of what is in use: 64 MiB that wait on
// the heap are 128 MiB of memory. What waits in a [Store] is not on the heap. It takes its
// own size, and makes the collector neither wait longer nor scan more.
//
// Nothing refers to the memory of a store but the store: bytes are copied into it, and
// copied out of it before anything else can use them. So no program can read memory that
// is no longer there, whatever a transport does with the body of a request.
//
// # Files
//
//  1. store.go: bytes in segments
//  2. memory_unix.go, memory_other.go: the memory of a segment
package offheap
