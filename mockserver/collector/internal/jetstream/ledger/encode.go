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
func (a *Ledger) Encode() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	dst := []byte{checkpointFormat}
	dst = record.AppendNumbers(dst, a.Calls, a.Outcomes, a.Purged)
	for _, spans := range [][]record.Span{a.Lost, a.Gone} {
		dst = record.AppendNumbers(dst, uint64(len(spans)))
		for _, s := range spans {
			dst = record.AppendNumbers(dst, s.First, s.Last)
		}
	}
	dst = record.AppendNumbers(dst, uint64(len(a.Accounts)))
	for name, b := range a.Accounts {
		dst = b.append(record.AppendText(dst, name))
	}
	return dst
}

func (b *Account) append(dst []byte) []byte {
	l := b.Ledger
	for _, n := range []int64{l.Accepted, l.Delivered, l.Failed, l.Filtered, b.Fresh} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = record.AppendNumbers(dst, b.Attached, uint64(b.Since), b.Floor, uint64(len(b.Scopes)))
	for _, s := range b.Scopes {
		dst = record.AppendNumbers(dst, s.after, uint64(len(s.Sources)))
		for _, source := range s.Sources {
			dst = record.AppendText(dst, source)
		}
	}
	dst = record.AppendNumbers(dst, uint64(len(b.Done)))
	for seq, parts := range b.Done {
		dst = record.AppendNumbers(dst, seq, uint64(parts))
	}
	dst = record.AppendNumbers(dst, uint64(len(b.losses)))
	for _, l := range b.losses {
		dst = record.AppendText(record.AppendNumbers(dst, uint64(l.At.UnixMilli()), uint64(l.Calls)), l.Cause)
	}
	dst = record.AppendNumbers(dst, uint64(len(b.Retries)))
	for ref, r := range b.Retries {
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
	a, d := New(), &record.Decoder{Rest: data[1:]}
	a.Calls, a.Outcomes, a.Purged = d.Uint(), d.Uint(), d.Uint()
	for _, spans := range []*[]record.Span{&a.Lost, &a.Gone} {
		for range d.Int(len(data)) {
			*spans = append(*spans, record.Span{First: d.Uint(), Last: d.Uint()})
		}
	}
	for range d.Int(len(data)) {
		name := d.Text()
		a.Accounts[name] = decodeAccount(d, name)
	}
	if d.Failed || len(d.Rest) > 0 {
		return nil, errors.New("journal: a checkpoint is corrupt")
	}
	a.route()
	return a, nil
}

func decodeAccount(d *record.Decoder, name string) *Account {
	b := newAccount(name)
	b.Ledger = tracking.Ledger{Destination: name, Accepted: d.Signed(), Delivered: d.Signed(), Failed: d.Signed(), Filtered: d.Signed()}
	b.Fresh, b.Attached, b.Since, b.Floor = d.Signed(), d.Uint(), int64(d.Uint()), d.Uint()
	for range d.Int(len(d.Rest)) {
		s := scope{after: d.Uint()}
		for range d.Int(len(d.Rest)) {
			s.Sources = append(s.Sources, d.Text())
		}
		b.Scopes = append(b.Scopes, s)
	}
	if len(b.Scopes) == 0 {
		d.Fail()
	}
	for range d.Int(len(d.Rest)) {
		seq := d.Uint()
		b.Done[seq] = uint8(d.Uint())
	}
	for range d.Int(len(d.Rest)) {
		at := time.UnixMilli(int64(d.Uint()))
		b.lose(int64(d.Uint()), at, d.Text())
	}
	for range d.Int(len(d.Rest)) {
		ref := record.RefOf(d.Uint())
		b.Retries[ref] = Waiting{
			Attempt: d.Int(1 << 30), calls: d.Int(record.PartCalls), Decided: int64(d.Uint()),
			Due: int64(d.Uint()), accepted: int64(d.Uint()), Outcome: d.Uint(), Which: CallSet{d.Uint(), d.Uint()},
		}
	}
	return b
}

// Decompress reads the result of Encode, compressed with S2.
func Decompress(data []byte) (*Ledger, error) {
	raw, err := s2.Decode(nil, data)
	if err != nil {
		return nil, err
	}
	return Decode(raw)
}
