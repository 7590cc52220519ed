package pipeline

import "slices"

// budget counts the memory of calls against Config.MaxBytes, and wakes those that
// wait for some. It is guarded by the pipeline's mu.
type budget struct {
	max  int64
	used int64         // by calls
	room chan struct{} // made by a call that waits; closed, and set to nil, when there may be room
}

// release counts n bytes that are free again. It does not wake calls that wait for
// every batch, but when an eighth of the budget is free.
func (b *budget) release(n int64) {
	b.used -= n
	if n > 0 && b.used <= b.enough() {
		b.wakeWaiting()
	}
}

// enough is the use up to which there is room for calls that wait.
func (b *budget) enough() int64 { return b.max - b.max/8 }

// waitForRoom returns a channel that is closed by wakeWaiting.
func (b *budget) waitForRoom() <-chan struct{} {
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// wakeWaiting makes the calls that wait for room look for it.
func (b *budget) wakeWaiting() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// minBuffer is the least capacity a batch starts with.
const minBuffer = 4 << 10

// buffers are buffers of batches to be used again. They are guarded by the
// pipeline's mu.
type buffers struct {
	max   int // bytes of all
	size  int // capacity of all
	free  [][]byte
	usual int // length of the batch sealed last, the likely length of the next
}

// put keeps a buffer, unless there are enough or it is small. Nothing refers to it
// any more.
func (b *buffers) put(buf []byte) {
	if cap(buf) >= minBuffer && b.size+cap(buf) <= b.max {
		b.free = append(b.free, buf[:0])
		b.size += cap(buf)
	}
}

// drop leaves buffers of n bytes, or a little more, to the garbage collector.
func (b *buffers) drop(n int64) {
	for n > 0 && len(b.free) > 0 {
		n -= int64(cap(b.get()))
	}
}

// get returns a buffer that was put, or nil.
func (b *buffers) get() []byte {
	n := len(b.free)
	if n == 0 {
		return nil
	}
	buf := b.free[n-1]
	b.free[n-1] = nil
	b.free = b.free[:n-1]
	b.size -= cap(buf)
	return buf
}

// newBuffer makes a buffer whose capacity is all of the memory that it takes: the
// runtime rounds allocations up, and only append reveals by how much. The buffer is
// no larger than a batch may be, unless size is.
func newBuffer(size int) []byte {
	buf := slices.Grow([]byte(nil), size)
	return buf[:0:min(cap(buf), max(size, MaxBatchBytes+len(",")))]
}

// mayTake is the most memory that buf takes once it has a capacity of size. The
// runtime adds less than a quarter, and less than a page of 8 KB.
func mayTake(buf []byte, size int) int64 {
	if size <= cap(buf) {
		return int64(size)
	}
	return int64(size + min(size/4, 8<<10))
}
