package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// runMessages is how many messages a run has at most.
const runMessages = 256

// undelivered are the messages of CALLS that have a part whose first attempt has not
// ended, in their order. There may be a million of them, where calls come one by one:
// each takes 12 bytes.
type undelivered []*undeliveredRun

// A run is some of them.
type undeliveredRun struct {
	first    uint64 // the number of the first
	at       int64  // milliseconds; when its calls were accepted
	open     int    // those that are not done
	messages []undeliveredMessage
}

type undeliveredMessage struct {
	seq   uint32 // since the run's first
	at    int32  // milliseconds since the run's first; may be negative
	calls uint16
	ended uint8 // the parts whose first attempt has ended, as bits
}

func (m *undeliveredMessage) done() bool { return m.ended == 1<<record.Parts(int(m.calls))-1 }

// add takes in a message that follows all others.
func (u *undelivered) add(seq uint64, calls int, at time.Time) {
	if calls == 0 {
		return
	}
	ms := at.UnixMilli()
	var r *undeliveredRun
	if n := len(*u); n > 0 {
		r = (*u)[n-1]
	}
	if r == nil || len(r.messages) == runMessages || seq-r.first > math.MaxUint32 || ms-r.at != int64(int32(ms-r.at)) {
		r = &undeliveredRun{first: seq, at: ms}
		*u = append(*u, r)
	}
	r.messages = append(r.messages, undeliveredMessage{seq: uint32(seq - r.first), at: int32(ms - r.at), calls: uint16(calls)})
	r.open++
}

// end takes out a part, and returns how many calls it has. It is not ok if the part
// is not there, or no longer.
func (u *undelivered) end(ref record.Ref) (calls int, ok bool) {
	at, found := slices.BinarySearchFunc(*u, ref.Seq, func(r *undeliveredRun, seq uint64) int { return cmp.Compare(r.first, seq) })
	if !found {
		at-- // it may be in the run that begins before
	}
	if at < 0 {
		return 0, false
	}
	r := (*u)[at]
	i, found := slices.BinarySearchFunc(r.messages, ref.Seq, func(m undeliveredMessage, seq uint64) int { return cmp.Compare(r.first+uint64(m.seq), seq) })
	if !found {
		return 0, false
	}
	m := &r.messages[i]
	if m.ended&(1<<ref.Part) != 0 || ref.Part >= record.Parts(int(m.calls)) {
		return 0, false
	}
	if m.ended |= 1 << ref.Part; m.done() {
		if r.open--; r.open == 0 {
			*u = slices.Delete(*u, at, at+1)
		}
	}
	return record.PartSize(int(m.calls), ref.Part), true
}

// All calls yield with each part, in their order, until it returns false.
func (u undelivered) All(yield func(ref record.Ref, calls int, at time.Time) bool) {
	for _, r := range u {
		for i := range r.messages {
			m := &r.messages[i]
			for part := range record.Parts(int(m.calls)) {
				if m.ended&(1<<part) != 0 {
					continue
				}
				ref := record.Ref{Seq: r.first + uint64(m.seq), Part: part}
				if !yield(ref, record.PartSize(int(m.calls), part), time.UnixMilli(r.at+int64(m.at))) {
					return
				}
			}
		}
	}
}
