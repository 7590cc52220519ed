package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A callsRef names what a destination works at in one go: a part of a stored
// message of calls.
type callsRef struct {
	seq  uint64 // of the message in CALLS
	part int    // which partCalls of its calls
}

// partCalls is how many calls of a message are one entry, and maxParts how many
// parts a message may have.
const (
	partCalls = 128
	maxParts  = 8
)

// number is the ref as one number, which subjects and checkpoints use.
func (r callsRef) number() uint64 { return r.seq*maxParts + uint64(r.part) }

func refOf(number uint64) callsRef {
	return callsRef{number / maxParts, int(number % maxParts)}
}

// parts returns how many parts a message of n calls has.
func parts(n int) int { return (n + partCalls - 1) / partCalls }

// partSize returns how many calls the part of a message of n calls has.
func partSize(n, part int) int { return max(0, min(n-part*partCalls, partCalls)) }

// An outcome is how a lease ended: the one record that counts. It is written
// before anything is done about it, and what is done about it can be done again.
type outcome struct {
	destination string
	attached    uint64 // since when, as a message of CALLS: one that was detached meanwhile is another
	ref         callsRef
	attempt     int
	low         uint64 // every fresh message below this one is done; 0 where that is not known
	delivered   int
	filtered    int
	again       []int     // the calls that are to be tried again, by their place in the message
	notes       []string  // of those calls; nil where there is none
	decided     time.Time // when that was decided; 1970 where it is not known
	due         time.Time // when they are
	accepted    time.Time // when the oldest of them was accepted
	failed      []failure
}

// A failure is a call that was given up.
type failure struct {
	place  int // in the message
	reason string
}

// calls returns how many calls the outcome is about.
func (o *outcome) calls() int {
	return o.delivered + o.filtered + len(o.again) + len(o.failed)
}

// size is about how many bytes the outcome takes.
func (o *outcome) size() int {
	n := 96 + len(o.destination) + 3*len(o.again)
	for _, f := range o.failed {
		n += 4 + min(len(f.reason), maxReason)
	}
	return n
}

// maxReason bounds the text that is kept for a failure.
const maxReason = 2 << 10

// append encodes the outcome.
func (o *outcome) append(dst []byte) []byte {
	dst = appendText(dst, o.destination)
	for _, n := range []uint64{
		o.attached, o.ref.number(), uint64(o.attempt), o.low,
		uint64(o.delivered), uint64(o.filtered), uint64(len(o.again)),
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	if len(o.again) > 0 {
		dst = binary.AppendVarint(dst, o.decided.UnixNano())
		dst = binary.AppendVarint(dst, o.due.UnixNano())
		dst = binary.AppendVarint(dst, o.accepted.UnixNano())
		dst = appendPlaces(dst, o.again)
		dst = appendText(dst, strings.Join(o.notes, ","))
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.failed)))
	if len(o.failed) == 0 {
		return dst
	}
	reasons, of := reasonsOf(o.failed)
	dst = binary.AppendUvarint(dst, uint64(len(reasons)))
	for _, r := range reasons {
		dst = appendText(dst, r)
	}
	for i, f := range o.failed {
		dst = binary.AppendUvarint(dst, uint64(f.place))
		dst = binary.AppendUvarint(dst, uint64(of[i]))
	}
	return dst
}

// reasonsOf returns the different reasons, and which of them each failure has.
func reasonsOf(failed []failure) (reasons []string, of []int) {
	index := map[string]int{}
	of = make([]int, len(failed))
	for i, f := range failed {
		r := f.reason
		if len(r) > maxReason {
			r = r[:maxReason]
		}
		at, ok := index[r]
		if !ok {
			at = len(reasons)
			index[r], reasons = at, append(reasons, r)
		}
		of[i] = at
	}
	return reasons, of
}

// appendPlaces encodes ascending places by their distances.
func appendPlaces(dst []byte, places []int) []byte {
	last := 0
	for _, p := range places {
		dst = binary.AppendUvarint(dst, uint64(p-last))
		last = p
	}
	return dst
}

func appendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// A message of OUTCOMES is a byte for the format, the id of the write, and the
// outcomes, each behind its length. Format 1 does not say when an outcome was decided.
const outcomesFormat = 2

// A writeID names one write of outcomes, so that the writer knows it again.
type writeID struct{ writer, number uint64 }

// newOutcomes begins a message of OUTCOMES.
func newOutcomes(id writeID) []byte {
	m := binary.LittleEndian.AppendUint64([]byte{outcomesFormat}, id.writer)
	return binary.LittleEndian.AppendUint64(m, id.number)
}

var errBadOutcome = errors.New("journal: a stored outcome is damaged")

func decodeOutcomes(data []byte) (writeID, []outcome, error) {
	if len(data) < 17 || data[0] < 1 || data[0] > outcomesFormat {
		return writeID{}, nil, fmt.Errorf("journal: stored outcomes have format %.1x, not 1 to %d", data, outcomesFormat)
	}
	id := writeID{binary.LittleEndian.Uint64(data[1:]), binary.LittleEndian.Uint64(data[9:])}
	var outcomes []outcome
	for d := (decoder{rest: data[17:]}); len(d.rest) > 0; {
		o := decoder{rest: d.bytes()}
		decoded := o.outcome(data[0])
		if d.failed || o.failed || len(o.rest) > 0 {
			return id, nil, errBadOutcome
		}
		outcomes = append(outcomes, decoded)
	}
	return id, outcomes, nil
}

// A decoder reads what the append functions wrote.
type decoder struct {
	rest   []byte
	failed bool // what was read is not what was written
}

func (d *decoder) fail() { d.failed, d.rest = true, nil }

func (d *decoder) uint() uint64 {
	n, w := binary.Uvarint(d.rest)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[w:]
	return n
}

// int reads a number that may be at most limit.
func (d *decoder) int(limit int) int {
	n := d.uint()
	if n > uint64(limit) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) signed() int64 {
	n, w := binary.Varint(d.rest)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[w:]
	return n
}

func (d *decoder) time() time.Time {
	n, w := binary.Varint(d.rest)
	if w <= 0 {
		d.fail()
		return time.Time{}
	}
	d.rest = d.rest[w:]
	return time.Unix(0, n)
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// places reads n ascending places of a message.
func (d *decoder) places(n int) []int {
	if n > len(d.rest) { // each takes a byte at least
		d.fail()
		return nil
	}
	places, last := make([]int, n), 0
	for i := range places {
		last += d.int(partCalls * maxParts)
		places[i] = last
	}
	return places
}

// notes reads the notes of n calls, which have no commas.
func (d *decoder) notes(n int) []string {
	text := d.bytes()
	if len(text) == 0 {
		return nil
	}
	notes := strings.Split(string(text), ",")
	if len(notes) != n {
		d.fail()
	}
	return notes
}

func (d *decoder) outcome(format byte) outcome {
	const most = partCalls
	o := outcome{destination: string(d.bytes()), attached: d.uint(), ref: refOf(d.uint()), attempt: d.int(1 << 30), low: d.uint()}
	o.delivered, o.filtered = d.int(most), d.int(most)
	if n := d.int(most); n > 0 {
		if o.decided = time.Unix(0, 0); format > 1 {
			o.decided = d.time()
		}
		o.due, o.accepted = d.time(), d.time()
		o.again = d.places(n)
		o.notes = d.notes(n)
	}
	n := d.int(most)
	if n == 0 {
		return o
	}
	reasons := make([]string, d.int(most))
	for i := range reasons {
		reasons[i] = string(d.bytes())
	}
	for range n {
		f := failure{place: d.int(partCalls * maxParts)}
		if r := d.int(most); r < len(reasons) {
			f.reason = reasons[r]
		} else {
			d.fail()
		}
		o.failed = append(o.failed, f)
	}
	return o
}
