package jetstream

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// runMessages is how many messages a run has at most.
const runMessages = 256

// untried are the messages of CALLS that have a part whose first attempt has not
// ended, in their order. There may be a million of them, where calls come one by one:
// each takes 12 bytes.
type untried []*untriedRun

// A run is some of them.
type untriedRun struct {
	first    uint64 // the number of the first
	at       int64  // milliseconds; when its calls were accepted
	open     int    // those that are not done
	messages []untriedMessage
}

type untriedMessage struct {
	seq   uint32 // since the run's first
	at    int32  // milliseconds since the run's first; may be negative
	calls uint16
	ended uint8 // the parts whose first attempt has ended, as bits
}

func (m *untriedMessage) done() bool { return m.ended == 1<<parts(int(m.calls))-1 }

// add takes in a message that follows all others.
func (u *untried) add(seq uint64, calls int, at time.Time) {
	if calls == 0 {
		return
	}
	ms := at.UnixMilli()
	var r *untriedRun
	if n := len(*u); n > 0 {
		r = (*u)[n-1]
	}
	if r == nil || len(r.messages) == runMessages || seq-r.first > math.MaxUint32 || ms-r.at != int64(int32(ms-r.at)) {
		r = &untriedRun{first: seq, at: ms}
		*u = append(*u, r)
	}
	r.messages = append(r.messages, untriedMessage{seq: uint32(seq - r.first), at: int32(ms - r.at), calls: uint16(calls)})
	r.open++
}

// end takes out a part, and returns how many calls it has. It is not ok if the part
// is not there, or no longer.
func (u *untried) end(ref callsRef) (calls int, ok bool) {
	at, found := slices.BinarySearchFunc(*u, ref.seq, func(r *untriedRun, seq uint64) int { return cmp.Compare(r.first, seq) })
	if !found {
		at-- // it may be in the run that begins before
	}
	if at < 0 {
		return 0, false
	}
	r := (*u)[at]
	i, found := slices.BinarySearchFunc(r.messages, ref.seq, func(m untriedMessage, seq uint64) int { return cmp.Compare(r.first+uint64(m.seq), seq) })
	if !found {
		return 0, false
	}
	m := &r.messages[i]
	if m.ended&(1<<ref.part) != 0 || ref.part >= parts(int(m.calls)) {
		return 0, false
	}
	if m.ended |= 1 << ref.part; m.done() {
		if r.open--; r.open == 0 {
			*u = slices.Delete(*u, at, at+1)
		}
	}
	return partSize(int(m.calls), ref.part), true
}

// all calls yield with each part, in their order, until it returns false.
func (u untried) all(yield func(ref callsRef, calls int, at time.Time) bool) {
	for _, r := range u {
		for i := range r.messages {
			m := &r.messages[i]
			for part := range parts(int(m.calls)) {
				if m.ended&(1<<part) != 0 {
					continue
				}
				ref := callsRef{r.first + uint64(m.seq), part}
				if !yield(ref, partSize(int(m.calls), part), time.UnixMilli(r.at+int64(m.at))) {
					return
				}
			}
		}
	}
}
