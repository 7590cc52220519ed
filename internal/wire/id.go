package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// Message ids are UUIDs of version 7 (RFC 9562, section 5.7). Their first 60
// bits are a time in milliseconds and a counter and only ever grow within a
// process, which makes an id unique there and sorts the ids by age. The last
// 62 are random: they distinguish processes, and change every second so that
// two copies of a process, restored from one snapshot of a machine, diverge. Ids
// of one second share them, which makes a batch compress better.

// IDLen is the length of a message id.
const IDLen = len("00000000-0000-7000-0000-000000000000")

// idOrder is the first 60 bits of the newest id: 48 of milliseconds since
// 1970, then 12 that count the ids of one millisecond from 0. Where the count
// overflows, or the clock is set back, the milliseconds run ahead of the clock. It has a
// cache line of its own: every call writes to it, and reads other variables.
var idOrder struct {
	_ [64]byte
	atomic.Uint64
	_ [64]byte
}

// TimestampKey comes between the id of a call and its time.
const TimestampKey = `,"timestamp":"`

const (
	timeAt   = len(`"`) + IDLen + len(`"`) + len(TimestampKey)
	stampLen = timeAt + TimeLen + len(`"`)
)

// A second is what the ids and times made within one second have in common.
type second struct {
	unix  int64
	stamp [stampLen]byte // as AppendStamp appends it
}

func (s *second) id() []byte   { return s.stamp[1 : 1+IDLen] }
func (s *second) time() []byte { return s.stamp[timeAt : timeAt+TimeLen] }

var currentSecond atomic.Pointer[second]

// AppendID appends a new message id, 36 bytes long. It does not quote it.
func AppendID(dst []byte) []byte { return AppendIDAt(dst, time.Now().UnixMilli()) }

// AppendIDAt is AppendID with the current time, in milliseconds since 1970.
func AppendIDAt(dst []byte, milli int64) []byte {
	dst = append(dst, secondOf(milli).id()...)
	putOrder(dst[len(dst)-IDLen:], nextOrder(milli))
	return dst
}

// AppendNow is AppendTime for the present or a time close to it, in milliseconds since
// 1970, and faster.
func AppendNow(dst []byte, milli int64) []byte {
	dst = append(dst, secondOf(milli).time()...)
	putMilli(dst[len(dst)-TimeLen:], milli)
	return dst
}

// AppendStamp appends what most calls end with: a new message id in quotes, TimestampKey
// and the current time, which is given in milliseconds since 1970, with a quote.
func AppendStamp(dst []byte, milli int64) []byte {
	dst = append(dst, secondOf(milli).stamp[:]...)
	stamp := dst[len(dst)-stampLen:]
	putOrder(stamp[1:], nextOrder(milli))
	putMilli(stamp[timeAt:], milli)
	return dst
}

// putOrder sets the first 60 bits of an id besides its version.
func putOrder(id []byte, order uint64) {
	_ = id[IDLen-1]
	binary.BigEndian.PutUint64(id[0:8], hexDigits8(uint32(order>>28)))
	low := hexDigits8(uint32(order & (1<<28 - 1))) // 7 digits behind a 0
	binary.BigEndian.PutUint32(id[9:13], uint32(low>>24))
	id[15], id[16], id[17] = byte(low>>16), byte(low>>8), byte(low)
}

// putMilli sets the milliseconds of a time.
func putMilli(time []byte, milli int64) {
	n := thousandths(milli)
	time[20], time[21], time[22] = byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10)
}

// nextOrder returns the first 60 bits of an id made at a time in milliseconds.
func nextOrder(milli int64) uint64 {
	start := uint64(milli) << 12
	for {
		if order := idOrder.Add(1); order >= start {
			return order
		}
		// The millisecond is new: the first goroutine sets its count to 0.
		if last := idOrder.Load(); last < start && idOrder.CompareAndSwap(last, start) {
			return start
		}
	}
}

// thousandths is how many milliseconds of its second a time is.
func thousandths(milli int64) uint32 {
	n := milli % 1000
	if n < 0 {
		n += 1000
	}
	return uint32(n)
}

// secondOf returns the second of a time in milliseconds. Goroutines that make a new one at
// the same time each use their own.
func secondOf(milli int64) *second {
	unix := (milli - int64(thousandths(milli))) / 1000
	if s := currentSecond.Load(); s != nil && s.unix == unix {
		return s
	}
	s := &second{unix: unix}
	copy(s.stamp[:], `"00000000-0000-7000-0000-000000000000"`+TimestampKey)
	s.stamp[stampLen-1] = '"'
	var random [8]byte
	rand.Read(random[:])
	random[0] = random[0]&0x3f | 0x80 // the variant
	id := s.id()
	hex.Encode(id[19:23], random[:2])
	hex.Encode(id[24:36], random[2:])
	copy(s.time(), AppendTime(nil, time.UnixMilli(milli)))
	currentSecond.Store(s)
	return s
}

// hexDigits8 is the 8 hexadecimal digits of n, the highest first.
func hexDigits8(n uint32) uint64 {
	const ones = 0x0101010101010101
	x := uint64(n) // a digit is to be in a byte of its own
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	letters := (x + ones*6) >> 4 & ones
	return x + ones*'0' + letters*('a'-'0'-10)
}
