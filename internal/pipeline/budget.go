package pipeline

import "slices"

// budget limits the memory of calls to Config.MaxBytes, and wakes calls that wait for
// memory. The pipeline's mu guards it.
type budget struct {
	max  int64
	used int64         // bytes in use
	room chan struct{} // created by a waiting call; closed and set to nil when there may be room
}

// release returns n bytes. It wakes waiting calls only if at least an eighth of the budget
// is free.
func (b *budget) release(n int64) {
	b.used -= n
	if n > 0 && b.used <= b.enough() {
		b.wakeWaiting()
	}
}

// enough is the highest use at which waiting calls are woken.
func (b *budget) enough() int64 { return b.max - b.max/8 }

// waitForRoom returns a channel that is closed by wakeWaiting.
func (b *budget) waitForRoom() <-chan struct{} {
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// wakeWaiting wakes the calls that wait for room.
func (b *budget) wakeWaiting() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// minBuffer is the minimum capacity of a batch.
const minBuffer = 4 << 10

// buffers is a free list of the buffers of batches. The pipeline's mu guards it.
type buffers struct {
	max   int // maximum of size
	size  int // total capacity of free, in bytes
	free  [][]byte
	usual int // length of the last sealed batch, and probably of the next one
}

// put adds a buffer, unless the list is full or the buffer is small. The caller must not use
// it afterwards.
func (b *buffers) put(buf []byte) {
	if cap(buf) >= minBuffer && b.size+cap(buf) <= b.max {
		b.free = append(b.free, buf[:0])
		b.size += cap(buf)
	}
}

// drop removes buffers of at least n bytes.
func (b *buffers) drop(n int64) {
	for n > 0 && len(b.free) > 0 {
		n -= int64(cap(b.get()))
	}
}

// get removes and returns a buffer, or nil.
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

// newBuffer returns an empty buffer. Its capacity is at least size. It includes the memory
// that the runtime adds by rounding up, but this does not extend it beyond the size of the
// largest batch.
func newBuffer(size int) []byte {
	buf := slices.Grow([]byte(nil), size)
	return buf[:0:min(cap(buf), max(size, MaxBatchBytes+len(",")))]
}

// mayTake returns an upper limit for the memory of buf with a capacity of size. The runtime
// adds less than a quarter, and less than 8 KB.
func mayTake(buf []byte, size int) int64 {
	if size <= cap(buf) {
		return int64(size)
	}
	return int64(size + min(size/4, 8<<10))
}
