package disk

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
)

const (
	// sector is the unit that a disk writes atomically, in bytes.
	sector = 512
	// page is the unit of a Device's cache, in bytes.
	page = 4096
	// cacheMost limits the number of unflushed bytes. When there are more, the device writes
	// all of them to its medium, like a disk with a small cache.
	cacheMost = 64 << 20
)

// Op is an operation of a device.
type Op int

// The operations of a device.
const (
	Write Op = iota
	Sync
	Read
)

func (o Op) String() string { return [...]string{"write", "sync", "read"}[o] }

// Range is a range of bytes on a device. It does not include To.
type Range struct{ From, To int64 }

// Fault makes operations of one kind fail with EIO.
type Fault struct {
	Op     Op
	Ranges []Range // the affected ranges, or empty for all; ignored for syncs
	Skip   int     // number of operations that succeed before the first failure
	Count  int     // number of operations that fail; 0 means all until Heal
	Tear   bool    // a failed write stores some of its sectors
}

// Stats counts the operations of a device.
type Stats struct {
	Reads, Writes, Syncs int64
	Failed               int64 // number of failed operations of all kinds
	Unflushed            int   // number of writes since the last flush
	Dropped              int64 // number of writes that power cuts have dropped completely or partly
}

// Device is a disk with a volatile cache. A write stays in the cache until a flush stores it on
// the medium, which is a file. Device is safe for concurrent use.
type Device struct {
	mu      sync.Mutex // guards the fields below
	medium  *os.File
	size    int64
	cache   map[int64][]byte // changed pages that are not yet on the medium, keyed by page number
	pending []write          // writes since the last flush, in order
	bytes   int              // the number of bytes in pending
	faults  []*Fault
	random  *rand.Rand
	stats   Stats
}

type write struct {
	at   int64
	data []byte
}

// NewDevice returns a device with a medium of size bytes. The seed determines which data survives
// power cuts and torn writes.
func NewDevice(medium *os.File, size int64, seed uint64) *Device {
	return &Device{medium: medium, size: size, cache: map[int64][]byte{}, random: rand.New(rand.NewPCG(seed, 0))}
}

// Fail adds a fault. An operation fails if any active fault matches it.
func (d *Device) Fail(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Heal removes all faults.
func (d *Device) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// Stats returns the current counts.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Unflushed = len(d.pending)
	return s
}

// ReadAt reads data, including writes that have not been flushed.
func (d *Device) ReadAt(b []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Reads++
	if at >= d.size {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), d.size-at)]
	if d.fault(Read, at, len(b)) != nil {
		return 0, syscall.EIO
	}
	return len(b), d.read(b, at)
}

// WriteAt writes to the cache.
func (d *Device) WriteAt(b []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Writes++
	if at+int64(len(b)) > d.size {
		return 0, syscall.ENOSPC
	}
	if f := d.fault(Write, at, len(b)); f != nil {
		if f.Tear {
			return 0, errors.Join(d.writeSome(write{at, b}), syscall.EIO)
		}
		return 0, syscall.EIO
	}
	return len(b), d.write(write{at, b})
}

// Sync writes the cache to the medium.
func (d *Device) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Syncs++
	if d.fault(Sync, 0, 0) != nil {
		return syscall.EIO
	}
	return d.flush()
}

// Loss determines which unflushed writes a power cut drops.
type Loss int

// The losses of a power cut.
const (
	LoseSeeded Loss = iota // the seed chooses one of the following
	LoseAll
	LoseSome // half of the writes, and a part of one in eight of the other writes
	LoseNone
)

// Cut drops unflushed writes, like a power cut. Afterwards the medium contains the data that a
// machine finds after its restart.
func (d *Device) Cut(loss Loss) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if loss == LoseSeeded {
		loss = LoseAll + Loss(d.random.IntN(3))
	}
	pending := d.pending
	d.pending, d.bytes, d.faults = nil, 0, nil
	clear(d.cache)
	for _, w := range pending {
		switch {
		case loss == LoseAll || loss == LoseSome && d.random.IntN(2) == 0:
			d.stats.Dropped++
		case loss == LoseSome && d.random.IntN(8) == 0:
			d.stats.Dropped++
			if err := d.writeSome(w); err != nil {
				return err
			}
		default:
			if err := d.write(w); err != nil {
				return err
			}
		}
	}
	return d.flush()
}

// fault returns a fault that makes an operation fail, or nil.
func (d *Device) fault(op Op, at int64, n int) *Fault {
	for i, f := range d.faults {
		if f.Op != op || !f.covers(at, n) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Count == 1 {
			d.faults = append(d.faults[:i:i], d.faults[i+1:]...)
		}
		f.Count--
		d.stats.Failed++
		return f
	}
	return nil
}

func (f *Fault) covers(at int64, n int) bool {
	if f.Op == Sync || len(f.Ranges) == 0 {
		return true
	}
	for _, r := range f.Ranges {
		if at < r.To && at+int64(n) > r.From {
			return true
		}
	}
	return false
}

// write adds a write to the cache. The caller may reuse the data.
func (d *Device) write(w write) error {
	w.data = append([]byte(nil), w.data...)
	d.pending = append(d.pending, w)
	d.bytes += len(w.data)
	for done := 0; done < len(w.data); {
		at := w.at + int64(done)
		p, err := d.cached(at / page)
		if err != nil {
			return err
		}
		done += copy(p[at%page:], w.data[done:])
	}
	if d.bytes > cacheMost {
		return d.flush()
	}
	return nil
}

// writeSome stores some sectors of a write.
func (d *Device) writeSome(w write) error {
	for from := 0; from < len(w.data); from += sector {
		if d.random.IntN(2) == 0 {
			continue
		}
		part := w.data[from:min(from+sector, len(w.data))]
		if err := d.write(write{w.at + int64(from), part}); err != nil {
			return err
		}
	}
	return nil
}

// cached returns a page of the cache. If necessary, it loads the page from the medium.
func (d *Device) cached(n int64) ([]byte, error) {
	if p, ok := d.cache[n]; ok {
		return p, nil
	}
	p := make([]byte, page)
	if _, err := d.medium.ReadAt(p, n*page); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	d.cache[n] = p
	return p, nil
}

func (d *Device) read(b []byte, at int64) error {
	if _, err := d.medium.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for done := 0; done < len(b); {
		n, from := (at+int64(done))/page, (at+int64(done))%page
		size := min(page-int(from), len(b)-done)
		if p, ok := d.cache[n]; ok {
			copy(b[done:done+size], p[from:])
		}
		done += size
	}
	return nil
}

func (d *Device) flush() error {
	for n, p := range d.cache {
		if _, err := d.medium.WriteAt(p, n*page); err != nil {
			return fmt.Errorf("disk: writing the medium: %w", err)
		}
	}
	clear(d.cache)
	d.pending, d.bytes = nil, 0
	return nil
}
