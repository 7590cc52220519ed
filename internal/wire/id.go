package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// Message IDs are UUIDs of version 7 (RFC 9562, section 5.7). The first 60 bits are a time in
// milliseconds and a counter. Within a process they only increase, so that IDs are unique and
// sorted by age. The last 62 bits are random, so that the IDs of different processes differ. They
// change every second, so that two copies of a process that were restored from a snapshot do not
// create the same IDs. IDs of the same second have the same random bits, so that a batch
// compresses better.

// IDLen is the length of a message ID.
const IDLen = len("00000000-0000-7000-0000-000000000000")

// idOrder contains the first 60 bits of the newest ID: 48 bits of milliseconds since 1970, and
// a 12-bit counter of the IDs within the millisecond. If the counter overflows, or the clock is
// set back, the milliseconds are later than the clock. Each call writes to idOrder, so it has
// its own cache line.
var idOrder struct {
	_ [64]byte
	atomic.Uint64
	_ [64]byte
}

// TimestampKey is the JSON text between the ID and the timestamp of a call.
const TimestampKey = `,"timestamp":"`

const (
	timeAt   = len(`"`) + IDLen + len(`"`) + len(TimestampKey)
	stampLen = timeAt + TimeLen + len(`"`)
)

// second contains the parts of IDs and times that are the same within one second.
type second struct {
	unix  int64
	stamp [stampLen]byte // in the format of AppendStamp
}

func (s *second) id() []byte   { return s.stamp[1 : 1+IDLen] }
func (s *second) time() []byte { return s.stamp[timeAt : timeAt+TimeLen] }

var currentSecond atomic.Pointer[second]

// AppendID appends a new message ID without quotes. It has IDLen bytes.
func AppendID(dst []byte) []byte { return AppendIDAt(dst, time.Now().UnixMilli()) }

// AppendIDAt is like AppendID. milli is the current time in milliseconds since 1970.
func AppendIDAt(dst []byte, milli int64) []byte {
	dst = append(dst, secondOf(milli).id()...)
	putOrder(dst[len(dst)-IDLen:], nextOrder(milli))
	return dst
}

// AppendNow is a faster AppendTime for the current time. milli is the time in milliseconds since
// 1970.
func AppendNow(dst []byte, milli int64) []byte {
	dst = append(dst, secondOf(milli).time()...)
	putMilli(dst[len(dst)-TimeLen:], milli)
	return dst
}

// AppendStamp appends a quoted new message ID, TimestampKey, and the current time with its closing
// quote. Most calls contain this sequence. milli is the current time in milliseconds since 1970.
func AppendStamp(dst []byte, milli int64) []byte {
	dst = append(dst, secondOf(milli).stamp[:]...)
	stamp := dst[len(dst)-stampLen:]
	putOrder(stamp[1:], nextOrder(milli))
	putMilli(stamp[timeAt:], milli)
	return dst
}

// putOrder sets the first 60 bits of an ID, but not the version.
func putOrder(id []byte, order uint64) {
	_ = id[IDLen-1]
	binary.BigEndian.PutUint64(id[0:8], hexDigits8(uint32(order>>28)))
	low := hexDigits8(uint32(order & (1<<28 - 1))) // 7 digits, after a leading 0
	binary.BigEndian.PutUint32(id[9:13], uint32(low>>24))
	id[15], id[16], id[17] = byte(low>>16), byte(low>>8), byte(low)
}

// putMilli writes the milliseconds into a formatted time.
func putMilli(time []byte, milli int64) {
	n := thousandths(milli)
	time[20], time[21], time[22] = byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10)
}

// nextOrder returns the first 60 bits of a new ID. milli is the current time.
func nextOrder(milli int64) uint64 {
	start := uint64(milli) << 12
	for {
		if order := idOrder.Add(1); order >= start {
			return order
		}
		// The first ID of a millisecond has the counter 0.
		if last := idOrder.Load(); last < start && idOrder.CompareAndSwap(last, start) {
			return start
		}
	}
}

// thousandths returns the milliseconds since the last full second.
func thousandths(milli int64) uint32 {
	n := milli % 1000
	if n < 0 {
		n += 1000
	}
	return uint32(n)
}

// secondOf returns the common parts for the second of a time. Concurrent callers may create
// different values for the same second.
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
	random[0] = random[0]&0x3f | 0x80 // set the variant of the UUID
	id := s.id()
	hex.Encode(id[19:23], random[:2])
	hex.Encode(id[24:36], random[2:])
	copy(s.time(), AppendTime(nil, time.UnixMilli(milli)))
	currentSecond.Store(s)
	return s
}

// hexDigits8 returns the 8 hexadecimal digits of n as bytes of a word, most significant digit
// first.
func hexDigits8(n uint32) uint64 {
	const ones = 0x0101010101010101
	x := uint64(n) // move each digit to its own byte
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	letters := (x + ones*6) >> 4 & ones
	return x + ones*'0' + letters*('a'-'0'-10)
}
