package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const checkpointFormat = 3

// Encode returns the ledger in its storage format.
func (l *Ledger) Encode() []byte {
	dst := []byte{checkpointFormat}
	dst = record.AppendNumbers(dst, l.Calls, l.Outcomes, l.Purged)
	for _, spans := range [][]record.Span{l.LostCalls, l.LostOutcomes} {
		dst = record.AppendNumbers(dst, uint64(len(spans)))
		for _, s := range spans {
			dst = record.AppendNumbers(dst, s.First, s.Last)
		}
	}
	dst = record.AppendNumbers(dst, uint64(len(l.Accounts)))
	for name, a := range l.Accounts {
		dst = a.append(record.AppendText(dst, name))
	}
	return dst
}

func (a *Account) append(dst []byte) []byte {
	l := a.Totals
	for _, n := range []int64{l.Accepted, l.Delivered, l.Failed, l.Filtered, a.Unattempted} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = record.AppendNumbers(dst, a.Attached, uint64(a.Since), a.Floor, uint64(len(a.Scopes)))
	for _, s := range a.Scopes {
		dst = record.AppendNumbers(dst, s.after, uint64(len(s.Sources)))
		for _, source := range s.Sources {
			dst = record.AppendText(dst, source)
		}
	}
	dst = record.AppendNumbers(dst, uint64(len(a.Done)))
	for seq, parts := range a.Done {
		dst = record.AppendNumbers(dst, seq, uint64(parts))
	}
	dst = record.AppendNumbers(dst, uint64(len(a.losses)))
	for _, l := range a.losses {
		dst = record.AppendText(record.AppendNumbers(dst, uint64(l.At.UnixMilli()), uint64(l.Calls)), l.Cause)
	}
	dst = record.AppendNumbers(dst, uint64(len(a.Retries)))
	for ref, r := range a.Retries {
		dst = record.AppendNumbers(dst, ref.Number(), uint64(r.Attempt), uint64(r.calls), uint64(r.Decided), uint64(r.Due), uint64(r.accepted), r.Outcome)
		dst = record.AppendNumbers(dst, r.Which[:]...)
	}
	return dst
}

// Decode reads the result of Encode.
func Decode(data []byte) (*Ledger, error) {
	if len(data) == 0 || data[0] != checkpointFormat {
		return nil, fmt.Errorf("journal: a checkpoint has format %.1x, not %d", data, checkpointFormat)
	}
	l, d := New(), &record.Decoder{Rest: data[1:]}
	l.Calls, l.Outcomes, l.Purged = d.Uint(), d.Uint(), d.Uint()
	for _, spans := range []*[]record.Span{&l.LostCalls, &l.LostOutcomes} {
		for range d.Int(len(data)) {
			*spans = append(*spans, record.Span{First: d.Uint(), Last: d.Uint()})
		}
	}
	for range d.Int(len(data)) {
		name := d.Text()
		l.Accounts[name] = decodeAccount(d, name)
	}
	if d.Failed || len(d.Rest) > 0 {
		return nil, errors.New("journal: a checkpoint is corrupt")
	}
	l.route()
	return l, nil
}

func decodeAccount(d *record.Decoder, name string) *Account {
	a := newAccount(name)
	a.Totals = tracking.Ledger{Destination: name, Accepted: d.Signed(), Delivered: d.Signed(), Failed: d.Signed(), Filtered: d.Signed()}
	a.Unattempted, a.Attached, a.Since, a.Floor = d.Signed(), d.Uint(), int64(d.Uint()), d.Uint()
	for range d.Int(len(d.Rest)) {
		s := scope{after: d.Uint()}
		for range d.Int(len(d.Rest)) {
			s.Sources = append(s.Sources, d.Text())
		}
		a.Scopes = append(a.Scopes, s)
	}
	if len(a.Scopes) == 0 {
		d.Fail()
	}
	for range d.Int(len(d.Rest)) {
		seq := d.Uint()
		a.Done[seq] = uint8(d.Uint())
	}
	for range d.Int(len(d.Rest)) {
		at := time.UnixMilli(int64(d.Uint()))
		a.lose(int64(d.Uint()), at, d.Text())
	}
	for range d.Int(len(d.Rest)) {
		ref := record.RefOf(d.Uint())
		r := PendingRetry{
			Attempt: d.Int(1 << 30), calls: d.Int(record.PartCalls), Decided: int64(d.Uint()),
			Due: int64(d.Uint()), accepted: int64(d.Uint()), Outcome: d.Uint(), Which: CallSet{d.Uint(), d.Uint()},
		}
		if r.Which == (CallSet{}) { // a replay that an older version has stored
			r.Which = firstCalls(r.calls)
		}
		a.Retries[ref] = r
	}
	return a
}

// Decompress reads the result of Encode, compressed with S2.
func Decompress(data []byte) (*Ledger, error) {
	raw, err := s2.Decode(nil, data)
	if err != nil {
		return nil, err
	}
	return Decode(raw)
}
