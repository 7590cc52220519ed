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
// overflows, or the clock is set back, the milliseconds run ahead of the clock.
var idOrder atomic.Uint64

// A second is what the ids and times made within one second have in common.
type second struct {
	unix int64
	id   [IDLen]byte
	time [TimeLen]byte
}

var currentSecond atomic.Pointer[second]

// AppendID appends a new message id, 36 bytes long. It does not quote it.
func AppendID(dst []byte) []byte { return AppendIDAt(dst, time.Now()) }

// AppendIDAt is AppendID with the current time, which the caller knows.
func AppendIDAt(dst []byte, now time.Time) []byte {
	order := nextOrder(now.UnixMilli())
	dst = append(dst, secondOf(now).id[:]...)
	id := dst[len(dst)-IDLen:]
	binary.BigEndian.PutUint64(id[0:8], hexDigits8(uint32(order>>28)))
	low := hexDigits8(uint32(order & (1<<28 - 1))) // 7 digits behind a 0
	binary.BigEndian.PutUint32(id[9:13], uint32(low>>24))
	id[15], id[16], id[17] = byte(low>>16), byte(low>>8), byte(low)
	return dst
}

// AppendNow is AppendTime for the present or a time close to it, and faster.
func AppendNow(dst []byte, now time.Time) []byte {
	dst = append(dst, secondOf(now).time[:]...)
	milli := now.Nanosecond() / 1e6
	n := len(dst)
	dst[n-4], dst[n-3], dst[n-2] = byte('0'+milli/100), byte('0'+milli/10%10), byte('0'+milli%10)
	return dst
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

// secondOf returns the second of now. Goroutines that make a new one at the same
// time each use their own.
func secondOf(now time.Time) *second {
	unix := now.Unix()
	if m := currentSecond.Load(); m != nil && m.unix == unix {
		return m
	}
	m := &second{unix: unix}
	copy(m.id[:], "00000000-0000-7000-0000-000000000000")
	var random [8]byte
	rand.Read(random[:])
	random[0] = random[0]&0x3f | 0x80 // the variant
	hex.Encode(m.id[19:23], random[:2])
	hex.Encode(m.id[24:36], random[2:])
	copy(m.time[:], AppendTime(nil, now))
	currentSecond.Store(m)
	return m
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
