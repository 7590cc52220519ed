package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// runMessages is the maximum length of a run.
const runMessages = 256

// undelivered is the ordered list of CALLS messages that have unfinished first attempts. It may
// contain millions of messages, and uses 12 bytes per message.
type undelivered []*undeliveredRun

// An undeliveredRun is a sequence of messages, stored relative to its first one.
type undeliveredRun struct {
	first    uint64 // sequence number of the first message
	at       int64  // time of the first message, in Unix milliseconds
	open     int    // number of unfinished messages
	messages []undeliveredMessage
}

type undeliveredMessage struct {
	seq   uint32 // relative to the first message of the run
	at    int32  // milliseconds after undeliveredRun.at; may be negative
	calls uint16
	ended uint8 // bit set of the parts with a finished first attempt
}

func (m *undeliveredMessage) done() bool { return m.ended == 1<<record.Parts(int(m.calls))-1 }

// add appends a message.
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

// end removes a part and returns its number of calls. ok is false if the part is unknown or was
// removed before.
func (u *undelivered) end(ref record.Ref) (calls int, ok bool) {
	at, found := slices.BinarySearchFunc(*u, ref.Seq, func(r *undeliveredRun, seq uint64) int { return cmp.Compare(r.first, seq) })
	if !found {
		at-- // ref may be in the previous run
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

// All calls yield with each part, in order, until yield returns false.
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
