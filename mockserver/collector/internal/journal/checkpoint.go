package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	checkpointFormat = 3
	// lossless is the format before. It does not say what was lost, which calls of a
	// part are tried again, and when that was decided.
	lossless = 2
	// checkpointPiece bounds one message of a checkpoint.
	checkpointPiece = 512 << 10
	// checkpointAfter is how many messages are read before the account is stored
	// again, and checkpointEvery how long it may stay unstored. Reading that many
	// takes a start about 50 ms.
	checkpointAfter = 5000
	checkpointEvery = 30 * time.Second
	// checkpointTTL is how long a checkpoint stays on a cluster, where processes
	// come and go.
	checkpointTTL = 24 * time.Hour
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

func appendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
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
		a.books[name] = d.book(name, format)
	}
	if d.failed || len(d.rest) > 0 {
		return nil, errors.New("journal: a checkpoint is damaged")
	}
	a.route()
	return a, nil
}

func (d *decoder) book(name string, format byte) *book {
	b := newBook(name)
	b.ledger = tracking.Ledger{Destination: name, Accepted: d.signed(), Delivered: d.signed(), Failed: d.signed(), Filtered: d.signed()}
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

func (d *decoder) signed() int64 {
	n, w := binary.Varint(d.rest)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[w:]
	return n
}

// A checkpoint is stored in pieces, in one of two slots: one is always whole.
type checkpointer struct {
	slot            int
	calls, outcomes uint64 // where the account was at the last one
	at              time.Time
}

// checkpoint stores the account if there is reason to.
func (j *Journal) checkpoint(ctx context.Context, c *checkpointer, now bool) error {
	a := j.account
	a.mu.Lock()
	moved := a.calls + a.outcomes - c.calls - c.outcomes
	calls, outcomes := a.calls, a.outcomes
	a.mu.Unlock()
	if moved == 0 || !now && moved < checkpointAfter && time.Since(c.at) < checkpointEvery {
		return nil
	}
	if err := j.storeCheckpoint(ctx, c.slot, a.encode()); err != nil {
		return fmt.Errorf("journal: storing the account: %w", err)
	}
	*c = checkpointer{slot: 1 - c.slot, calls: calls, outcomes: outcomes, at: time.Now()}
	return nil
}

func (j *Journal) storeCheckpoint(ctx context.Context, slot int, data []byte) error {
	data = s2.Encode(nil, data)
	id := fmt.Sprintf("%x", randomNumber())
	pieces := slices.Collect(slices.Chunk(data, checkpointPiece))
	for i, piece := range pieces {
		m := nats.NewMsg(j.names.subject("s", "account", j.checkpointOwner(), strconv.Itoa(slot), strconv.Itoa(i)))
		m.Data = piece
		m.Header.Set("Checkpoint", id)
		m.Header.Set("Pieces", strconv.Itoa(len(pieces)))
		if j.options.NATS != nil {
			m.Header.Set("Nats-TTL", checkpointTTL.String())
		}
		if _, err := j.publish(ctx, j.nc, m); err != nil {
			return err
		}
	}
	return nil
}

// checkpointOwner names whose checkpoints these are: on a cluster each process
// has its own.
func (j *Journal) checkpointOwner() string {
	if j.options.NATS == nil {
		return "0"
	}
	return strconv.FormatUint(j.writer, 16)
}

// loadCheckpoints returns the accounts that are stored whole, newest first.
func (j *Journal) loadCheckpoints(ctx context.Context) ([]*account, error) {
	type stored struct {
		pieces [][]byte
		id     string
		left   int
	}
	slots := map[string]*stored{}
	t := j.tail(streamState, 1, func(m *nats.Msg, _ uint64) error {
		at := strings.LastIndexByte(m.Subject, '.')
		piece, err := strconv.Atoi(m.Subject[at+1:])
		n, err2 := strconv.Atoi(m.Header.Get("Pieces"))
		if err != nil || err2 != nil || n < 1 || n > 1<<16 {
			return nil //nolint:nilerr // it is not ours
		}
		id := m.Header.Get("Checkpoint")
		s := slots[m.Subject[:at]]
		if s == nil || s.id != id {
			s = &stored{pieces: make([][]byte, n), id: id, left: n}
			slots[m.Subject[:at]] = s
		}
		if piece < n && s.pieces[piece] == nil {
			s.pieces[piece] = m.Data
			s.left--
		}
		return nil
	})
	t.subjects = []string{j.names.subject("s", "account", ">")}
	if err := t.scan(ctx); err != nil {
		return nil, err
	}
	var accounts []*account
	if j.kept != nil {
		accounts = append(accounts, j.kept.account)
	}
	for slot, s := range slots {
		if s.left > 0 {
			continue // a process ended while it was written
		}
		a, err := decompressAccount(slices.Concat(s.pieces...))
		if err != nil {
			j.log.Warn("a checkpoint cannot be used; the account is made again from what is before it", "slot", slot, "error", err)
			continue
		}
		accounts = append(accounts, a)
	}
	slices.SortFunc(accounts, func(x, y *account) int {
		return int(min(1, max(-1, int64(y.calls+y.outcomes)-int64(x.calls+x.outcomes))))
	})
	return accounts, nil
}

func decompressAccount(data []byte) (*account, error) {
	raw, err := s2.Decode(nil, data)
	if err != nil {
		return nil, err
	}
	return decodeAccount(raw)
}
