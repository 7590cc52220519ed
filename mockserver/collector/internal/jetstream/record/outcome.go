package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A Ref identifies a part of a message of CALLS.
type Ref struct {
	Seq  uint64 // sequence number of the message in CALLS
	Part int    // index of the part
}

// PartCalls is the maximum number of calls in a part. MaxParts is the maximum number of parts in a
// message.
const (
	PartCalls = 128
	MaxParts  = 8
)

// Number returns the ref as one number, for subjects and checkpoints.
func (r Ref) Number() uint64 { return r.Seq*MaxParts + uint64(r.Part) }

// RefOf returns the ref with a number.
func RefOf(number uint64) Ref {
	return Ref{number / MaxParts, int(number % MaxParts)}
}

// Parts returns the number of parts of a message with n calls.
func Parts(n int) int { return (n + PartCalls - 1) / PartCalls }

// PartSize returns the number of calls in a part of a message with n calls.
func PartSize(n, part int) int { return max(0, min(n-part*PartCalls, PartCalls)) }

// An Outcome is the result of a lease. It is stored before it is applied. Applying it is idempotent.
type Outcome struct {
	Destination string
	Attached    uint64 // sequence number of the message of CALLS that attached the destination
	Ref         Ref
	Attempt     int
	Low         uint64 // all first attempts in earlier messages are finished; 0 if unknown
	Delivered   int
	Filtered    int       // number of filtered calls that are not kept for replays
	Again       []int     // positions of the calls to retry, in their message
	Notes       []string  // notes of the calls to retry; may be nil
	Decided     time.Time // when the retry was scheduled
	Due         time.Time // when the retry is due; Parked if it waits until delivery resumes
	Accepted    time.Time // acceptance time of the oldest call
	Failed      []Failure
}

// Parked is the due time of calls that wait until ordered delivery resumes.
var Parked = time.Unix(0, 0)

// IsParked reports whether a due time in nanoseconds is Parked. RETRY does not contain such
// calls.
func IsParked(due int64) bool { return due == Parked.UnixNano() }

// A Failure is a failed call, or a filtered call that is kept for replays.
type Failure struct {
	Place    int // position in the message
	Filtered bool
	Reason   string
}

// text returns the stored reason. A filtered call has the prefix filteredMark. The prefix is
// unambiguous, because no reason in older formats starts with it.
func (f Failure) text() string {
	reason := f.Reason[:min(len(f.Reason), maxReason)]
	if f.Filtered {
		return filteredMark + reason
	}
	return reason
}

// filteredMark is the prefix of the stored reasons of filtered calls that are kept.
const filteredMark = "\x00"

// reasonOf returns the reason that a stored string contains, and whether the call was filtered.
func reasonOf(text string) (reason string, filtered bool) {
	return strings.CutPrefix(text, filteredMark)
}

// FilteredAndFailed returns the number of filtered calls, whether they are kept or not, and of failed
// calls.
func (o *Outcome) FilteredAndFailed() (filtered, failed int64) {
	for i := range o.Failed {
		if o.Failed[i].Filtered {
			filtered++
		}
	}
	return int64(o.Filtered) + filtered, int64(len(o.Failed)) - filtered
}

// Calls returns the number of calls in the outcome.
func (o *Outcome) Calls() int {
	return o.Delivered + o.Filtered + len(o.Again) + len(o.Failed)
}

// Size returns the approximate size of the encoded outcome.
func (o *Outcome) Size() int {
	n := 96 + len(o.Destination) + 3*len(o.Again)
	for _, f := range o.Failed {
		n += 4 + min(len(f.Reason), maxReason)
	}
	return n
}

// maxReason is the maximum length of a stored reason, in bytes.
const maxReason = 2 << 10

// Append appends the encoded outcome.
func (o *Outcome) Append(dst []byte) []byte {
	dst = AppendText(dst, o.Destination)
	dst = AppendNumbers(dst, o.Attached, o.Ref.Number(), uint64(o.Attempt), o.Low, uint64(o.Delivered), uint64(o.Filtered), uint64(len(o.Again)))
	if len(o.Again) > 0 {
		dst = binary.AppendVarint(dst, o.Decided.UnixNano())
		dst = binary.AppendVarint(dst, o.Due.UnixNano())
		dst = binary.AppendVarint(dst, o.Accepted.UnixNano())
		dst = appendPlaces(dst, o.Again)
		dst = AppendText(dst, strings.Join(o.Notes, ","))
	}
	dst = AppendNumbers(dst, uint64(len(o.Failed)))
	if len(o.Failed) == 0 {
		return dst
	}
	reasons, of := ReasonsOf(o.Failed)
	dst = AppendNumbers(dst, uint64(len(reasons)))
	for _, r := range reasons {
		dst = AppendText(dst, r)
	}
	for i, f := range o.Failed {
		dst = AppendNumbers(dst, uint64(f.Place), uint64(of[i]))
	}
	return dst
}

// ReasonsOf returns the distinct stored reasons, and the index of each failure's reason.
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

// appendPlaces encodes ascending places as differences.
func appendPlaces(dst []byte, places []int) []byte {
	last := 0
	for _, p := range places {
		dst = binary.AppendUvarint(dst, uint64(p-last))
		last = p
	}
	return dst
}

// AppendNumbers appends numbers that Decoder.Uint can read.
func AppendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// AppendText appends text with its length. Decoder.Bytes and Decoder.Text can read it.
func AppendText[T string | []byte](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// outcomesFormat is the first byte of a message of OUTCOMES. It is followed by the ID of the write,
// and by the outcomes with their lengths.
const outcomesFormat = 2

// A WriteID identifies one write of outcomes.
type WriteID struct{ Writer, Number uint64 }

// NewOutcomes returns the beginning of a message of OUTCOMES.
func NewOutcomes(id WriteID) []byte {
	m := binary.LittleEndian.AppendUint64([]byte{outcomesFormat}, id.Writer)
	return binary.LittleEndian.AppendUint64(m, id.Number)
}

// Outcomes is a message of OUTCOMES.
type Outcomes struct {
	Seq uint64
	ID  WriteID
	At  time.Time // when the message was stored
	All []Outcome
}

// ParseOutcomes parses a message of OUTCOMES.
func ParseOutcomes(raw *jetstream.RawStreamMsg) (*Outcomes, error) {
	id, all, err := DecodeOutcomes(raw.Data)
	if err != nil {
		return nil, fmt.Errorf("message %d of OUTCOMES: %w", raw.Sequence, err)
	}
	return &Outcomes{raw.Sequence, id, raw.Time, all}, nil
}

// LastCall returns the last message of CALLS that the outcomes refer to, or 0.
func (m *Outcomes) LastCall() (last uint64) {
	for i := range m.All {
		last = max(last, m.All[i].Ref.Seq)
	}
	return last
}

var errBadOutcome = errors.New("journal: a stored outcome is corrupt")

// DecodeOutcomes decodes a message of OUTCOMES.
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

// A Decoder reads data that the append functions have written.
type Decoder struct {
	Rest   []byte
	Failed bool // whether the data is invalid
}

// Fail records that the data is invalid, and stops decoding.
func (d *Decoder) Fail() { d.Failed, d.Rest = true, nil }

// Uint reads an unsigned number.
func (d *Decoder) Uint() uint64 {
	n, w := binary.Uvarint(d.Rest)
	if w <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[w:]
	return n
}

// Int reads a number. A number above limit is invalid.
func (d *Decoder) Int(limit int) int {
	n := d.Uint()
	if n > uint64(limit) {
		d.Fail()
		return 0
	}
	return int(n)
}

// Signed reads a signed number.
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

// Bytes reads bytes that are stored with their length. They share memory with the input.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(d.Rest)) {
		d.Fail()
		return nil
	}
	b := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return b
}

// Text reads a string that is stored with its length.
func (d *Decoder) Text() string { return string(d.Bytes()) }

// places reads n ascending places.
func (d *Decoder) places(n int) []int {
	if n > len(d.Rest) { // each place takes at least one byte
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

// notes reads the notes of n calls, separated by commas.
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
	o := Outcome{Destination: d.Text(), Attached: d.Uint(), Ref: RefOf(d.Uint()), Attempt: d.Int(1 << 30), Low: d.Uint()}
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
		reasons[i] = d.Text()
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
