package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

const (
	checkpointFormat = 3
	// lossless is the format before. It does not say what was lost, which calls of a
	// part are tried again, and when that was decided.
	lossless = 2
)

// encode writes the account as it is now.
func (a *account) encode() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	dst := []byte{checkpointFormat}
	dst = appendNumbers(dst, a.calls, a.outcomes, a.purged)
	for _, spans := range [][]span{a.lost, a.gone} {
		dst = appendNumbers(dst, uint64(len(spans)))
		for _, s := range spans {
			dst = appendNumbers(dst, s.first, s.last)
		}
	}
	dst = appendNumbers(dst, uint64(len(a.books)))
	for name, b := range a.books {
		dst = b.append(appendText(dst, name))
	}
	return dst
}

func (b *book) append(dst []byte) []byte {
	l := b.ledger
	for _, n := range []int64{l.Accepted, l.Delivered, l.Failed, l.Filtered, b.fresh} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = appendNumbers(dst, b.attached, uint64(b.since), b.floor, uint64(len(b.scopes)))
	for _, s := range b.scopes {
		dst = appendNumbers(dst, s.after, uint64(len(s.sources)))
		for _, source := range s.sources {
			dst = appendText(dst, source)
		}
	}
	dst = appendNumbers(dst, uint64(len(b.done)))
	for seq, parts := range b.done {
		dst = appendNumbers(dst, seq, uint64(parts))
	}
	dst = appendNumbers(dst, uint64(len(b.losses)))
	for _, l := range b.losses {
		dst = appendText(appendNumbers(dst, uint64(l.At.UnixMilli()), uint64(l.Calls)), l.Cause)
	}
	dst = appendNumbers(dst, uint64(len(b.retries)))
	for ref, r := range b.retries {
		dst = appendNumbers(dst, ref.number(), uint64(r.attempt), uint64(r.calls), uint64(r.decided), uint64(r.due), uint64(r.accepted), r.outcome)
		dst = appendNumbers(dst, r.which[:]...)
	}
	return dst
}

// decodeAccount reads what encode wrote.
func decodeAccount(data []byte) (*account, error) {
	if len(data) == 0 || data[0] != checkpointFormat && data[0] != lossless {
		return nil, fmt.Errorf("journal: a checkpoint has format %.1x, not %d or %d", data, lossless, checkpointFormat)
	}
	a, d, format := newAccount(), &decoder{rest: data[1:]}, data[0]
	a.calls, a.outcomes, a.purged = d.uint(), d.uint(), d.uint()
	if format == lossless {
		a.purged = a.calls // it was the account of what had gone
	}
	for _, spans := range []*[]span{&a.lost, &a.gone} {
		for range d.int(len(data)) {
			*spans = append(*spans, span{d.uint(), d.uint()})
		}
	}
	for range d.int(len(data)) {
		name := string(d.bytes())
		a.books[name] = decodeBook(d, name, format)
	}
	if d.failed || len(d.rest) > 0 {
		return nil, errors.New("journal: a checkpoint is damaged")
	}
	a.route()
	return a, nil
}

func decodeBook(d *decoder, name string, format byte) *book {
	b := newBook(name)
	b.ledger = mockserver.Ledger{Destination: name, Accepted: d.signed(), Delivered: d.signed(), Failed: d.signed(), Filtered: d.signed()}
	b.fresh, b.attached, b.since, b.floor = d.signed(), d.uint(), int64(d.uint()), d.uint()
	for range d.int(len(d.rest)) {
		s := scope{after: d.uint()}
		for range d.int(len(d.rest)) {
			s.sources = append(s.sources, string(d.bytes()))
		}
		b.scopes = append(b.scopes, s)
	}
	if len(b.scopes) == 0 {
		d.fail()
	}
	for range d.int(len(d.rest)) {
		seq := d.uint()
		b.done[seq] = uint8(d.uint())
	}
	for range d.int(len(d.rest)) {
		if at := d.uint(); format != lossless { // it was of parts of messages that are gone
			b.lose(int64(d.uint()), time.UnixMilli(int64(at)), string(d.bytes()))
		}
	}
	for range d.int(len(d.rest)) {
		ref := refOf(d.uint())
		r := retry{attempt: d.int(1 << 30), calls: d.int(partCalls)}
		if format != lossless {
			r.decided = int64(d.uint())
		}
		r.due, r.accepted, r.outcome = int64(d.uint()), int64(d.uint()), d.uint()
		if format != lossless {
			r.which = callSet{d.uint(), d.uint()}
		}
		b.retries[ref] = r
	}
	return b
}

func decompressAccount(data []byte) (*account, error) {
	raw, err := s2.Decode(nil, data)
	if err != nil {
		return nil, err
	}
	return decodeAccount(raw)
}
