package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Ref names what a destination works at in one go: a part of a stored
// message of calls.
type Ref struct {
	Seq  uint64 // of the message in CALLS
	Part int    // which PartCalls of its calls
}

// PartCalls is how many calls of a message are one entry, and MaxParts how many
// parts a message may have.
const (
	PartCalls = 128
	MaxParts  = 8
)

// Number is the ref as one number, which subjects and checkpoints use.
func (r Ref) Number() uint64 { return r.Seq*MaxParts + uint64(r.Part) }

// RefOf returns the ref whose Number is number.
func RefOf(number uint64) Ref {
	return Ref{number / MaxParts, int(number % MaxParts)}
}

// Parts returns how many parts a message of n calls has.
func Parts(n int) int { return (n + PartCalls - 1) / PartCalls }

// PartSize returns how many calls the part of a message of n calls has.
func PartSize(n, part int) int { return max(0, min(n-part*PartCalls, PartCalls)) }

// An Outcome is how a lease ended: the one record that counts. It is written
// before anything is done about it, and what is done about it can be done again.
type Outcome struct {
	Destination string
	Attached    uint64 // since when, as a message of CALLS: one that was detached meanwhile is another
	Ref         Ref
	Attempt     int
	Low         uint64 // every fresh message below this one is done; 0 where that is not known
	Delivered   int
	Filtered    int       // beside those that are kept
	Again       []int     // the calls that are to be tried again, by their place in the message
	Notes       []string  // of those calls; nil where there is none
	Decided     time.Time // when that was decided
	Due         time.Time // when they are; Parked where they wait until the process resumes them that delivers in order
	Accepted    time.Time // when the oldest of them was accepted
	Failed      []Failure
}

// Parked is the time at which calls are due that have none.
var Parked = time.Unix(0, 0)

// IsParked reports whether calls that are due at a time, in nanoseconds, have none: RETRY
// does not have them.
func IsParked(due int64) bool { return due == Parked.UnixNano() }

// A Failure is a call that was given up, or one that was filtered and is kept.
type Failure struct {
	Place    int // in the message
	Filtered bool
	Reason   string
}

// text is what is stored of why: before formats knew filtered calls, no reason began with
// filteredMark.
func (f Failure) text() string {
	reason := f.Reason[:min(len(f.Reason), maxReason)]
	if f.Filtered {
		return filteredMark + reason
	}
	return reason
}

// filteredMark begins the text of calls that were filtered and are kept.
const filteredMark = "\x00"

// reasonOf reads what text has written.
func reasonOf(text string) (reason string, filtered bool) {
	return strings.CutPrefix(text, filteredMark)
}

// Ended returns how many calls of the outcome were filtered, kept or not, and how many
// failed.
func (o *Outcome) Ended() (filtered, failed int64) {
	for i := range o.Failed {
		if o.Failed[i].Filtered {
			filtered++
		}
	}
	return int64(o.Filtered) + filtered, int64(len(o.Failed)) - filtered
}

// Calls returns how many calls the outcome is about.
func (o *Outcome) Calls() int {
	return o.Delivered + o.Filtered + len(o.Again) + len(o.Failed)
}

// Size is about how many bytes the outcome takes.
func (o *Outcome) Size() int {
	n := 96 + len(o.Destination) + 3*len(o.Again)
	for _, f := range o.Failed {
		n += 4 + min(len(f.Reason), maxReason)
	}
	return n
}

// maxReason bounds the text that is kept for a failure.
const maxReason = 2 << 10

// Append encodes the outcome.
func (o *Outcome) Append(dst []byte) []byte {
	dst = AppendText(dst, o.Destination)
	for _, n := range []uint64{
		o.Attached, o.Ref.Number(), uint64(o.Attempt), o.Low,
		uint64(o.Delivered), uint64(o.Filtered), uint64(len(o.Again)),
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	if len(o.Again) > 0 {
		dst = binary.AppendVarint(dst, o.Decided.UnixNano())
		dst = binary.AppendVarint(dst, o.Due.UnixNano())
		dst = binary.AppendVarint(dst, o.Accepted.UnixNano())
		dst = appendPlaces(dst, o.Again)
		dst = AppendText(dst, strings.Join(o.Notes, ","))
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.Failed)))
	if len(o.Failed) == 0 {
		return dst
	}
	reasons, of := ReasonsOf(o.Failed)
	dst = binary.AppendUvarint(dst, uint64(len(reasons)))
	for _, r := range reasons {
		dst = AppendText(dst, r)
	}
	for i, f := range o.Failed {
		dst = binary.AppendUvarint(dst, uint64(f.Place))
		dst = binary.AppendUvarint(dst, uint64(of[i]))
	}
	return dst
}

// ReasonsOf returns the different reasons as they are stored, and which of them each
// failure has.
func ReasonsOf(failed []Failure) (reasons []string, of []int) {
	index := map[string]int{}
	of = make([]int, len(failed))
	for i, f := range failed {
		r := f.text()
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

// AppendNumbers appends numbers, which Decoder.Uint reads.
func AppendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// AppendText appends a text behind its length, which Decoder.Bytes reads.
func AppendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// A message of OUTCOMES is a byte for the format, the id of the write, and the
// outcomes, each behind its length.
const outcomesFormat = 2

// A WriteID names one write of outcomes, so that the writer knows it again.
type WriteID struct{ Writer, Number uint64 }

// NewOutcomes begins a message of OUTCOMES.
func NewOutcomes(id WriteID) []byte {
	m := binary.LittleEndian.AppendUint64([]byte{outcomesFormat}, id.Writer)
	return binary.LittleEndian.AppendUint64(m, id.Number)
}

var errBadOutcome = errors.New("journal: a stored outcome is damaged")

// DecodeOutcomes reads a message of OUTCOMES: who wrote it, and the outcomes.
func DecodeOutcomes(data []byte) (WriteID, []Outcome, error) {
	if len(data) < 17 || data[0] != outcomesFormat {
		return WriteID{}, nil, fmt.Errorf("journal: stored outcomes have format %.1x, not %d", data, outcomesFormat)
	}
	id := WriteID{binary.LittleEndian.Uint64(data[1:]), binary.LittleEndian.Uint64(data[9:])}
	var outcomes []Outcome
	for d := (Decoder{Rest: data[17:]}); len(d.Rest) > 0; {
		o := Decoder{Rest: d.Bytes()}
		decoded := o.outcome()
		if d.Failed || o.Failed || len(o.Rest) > 0 {
			return id, nil, errBadOutcome
		}
		outcomes = append(outcomes, decoded)
	}
	return id, outcomes, nil
}

// A Decoder reads what the append functions wrote.
type Decoder struct {
	Rest   []byte
	Failed bool // what was read is not what was written
}

// Fail says that what is read is not what was written. Nothing more is read.
func (d *Decoder) Fail() { d.Failed, d.Rest = true, nil }

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	n, w := binary.Uvarint(d.Rest)
	if w <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[w:]
	return n
}

// Int reads a number that may be at most limit.
func (d *Decoder) Int(limit int) int {
	n := d.Uint()
	if n > uint64(limit) {
		d.Fail()
		return 0
	}
	return int(n)
}

// Signed reads a number that may be negative.
func (d *Decoder) Signed() int64 {
	n, w := binary.Varint(d.Rest)
	if w <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[w:]
	return n
}

func (d *Decoder) time() time.Time {
	n := d.Signed()
	if d.Failed {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Bytes reads bytes behind their length. They share memory with what is decoded.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(d.Rest)) {
		d.Fail()
		return nil
	}
	b := d.Rest[:n]
	d.Rest = d.Rest[n:]
	return b
}

// places reads n ascending places of a message.
func (d *Decoder) places(n int) []int {
	if n > len(d.Rest) { // each takes a byte at least
		d.Fail()
		return nil
	}
	places, last := make([]int, n), 0
	for i := range places {
		last += d.Int(PartCalls * MaxParts)
		places[i] = last
	}
	return places
}

// notes reads the notes of n calls, which have no commas.
func (d *Decoder) notes(n int) []string {
	text := d.Bytes()
	if len(text) == 0 {
		return nil
	}
	notes := strings.Split(string(text), ",")
	if len(notes) != n {
		d.Fail()
	}
	return notes
}

func (d *Decoder) outcome() Outcome {
	const most = PartCalls
	o := Outcome{Destination: string(d.Bytes()), Attached: d.Uint(), Ref: RefOf(d.Uint()), Attempt: d.Int(1 << 30), Low: d.Uint()}
	o.Delivered, o.Filtered = d.Int(most), d.Int(most)
	if n := d.Int(most); n > 0 {
		o.Decided, o.Due, o.Accepted = d.time(), d.time(), d.time()
		o.Again = d.places(n)
		o.Notes = d.notes(n)
	}
	n := d.Int(most)
	if n == 0 {
		return o
	}
	reasons := make([]string, d.Int(most))
	for i := range reasons {
		reasons[i] = string(d.Bytes())
	}
	for range n {
		f := Failure{Place: d.Int(PartCalls * MaxParts)}
		if r := d.Int(most); r < len(reasons) {
			f.Reason, f.Filtered = reasonOf(reasons[r])
		} else {
			d.Fail()
		}
		o.Failed = append(o.Failed, f)
	}
	return o
}
