package pipeline

import "slices"

// budget limits the memory of calls to Config.MaxBytes, and wakes calls that wait for
// memory. It is guarded by the pipeline's mu.
type budget struct {
	max  int64
	low  int64         // waiting calls are woken when used is at most low
	used int64         // number of bytes in use
	room chan struct{} // non-nil if a call is waiting; closed when there may be room
}

// release subtracts n bytes from the memory in use. It wakes waiting calls if there is enough room
// for several batches, so that calls do not wait again for each batch.
func (b *budget) release(n int64) {
	b.used -= n
	if n > 0 && b.used <= b.low {
		b.wakeWaiting()
	}
}

// waitForRoom returns a channel that wakeWaiting closes.
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

// buffers is a list of free buffers for batches. It is guarded by the pipeline's mu.
type buffers struct {
	max   int // limit of size
	size  int // total capacity of the free buffers, in bytes
	free  [][]byte
	usual int // length of the last sealed batch, as an estimate for the next one
}

// put adds buf to the list. It does nothing if the list is full or buf is small. The caller
// must not use buf afterwards.
func (b *buffers) put(buf []byte) {
	if cap(buf) >= minBuffer && b.size+cap(buf) <= b.max {
		b.free = append(b.free, buf[:0])
		b.size += cap(buf)
	}
}

// drop removes buffers until n bytes are freed or the list is empty.
func (b *buffers) drop(n int64) {
	for n > 0 && len(b.free) > 0 {
		n -= int64(cap(b.get()))
	}
}

// get removes and returns a buffer. It returns nil if the list is empty.
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

// newBuffer returns an empty buffer with a capacity of at least size. The runtime may round the
// size up. newBuffer uses the additional memory, up to the size of the largest batch.
func newBuffer(size int) []byte {
	buf := slices.Grow([]byte(nil), size)
	return buf[:0:min(cap(buf), max(size, MaxBatchBytes+len(",")))]
}

// mayTake returns an upper bound for the memory of buf after it has grown to the given size.
// The runtime rounds a size up by less than a quarter, and by less than 8 KB.
func mayTake(buf []byte, size int) int64 {
	if size <= cap(buf) {
		return int64(size)
	}
	return int64(size + min(size/4, 8<<10))
}
