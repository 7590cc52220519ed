package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// maxSkew is how far the clocks of collectors that share a cluster may be apart,
	// and how far a clock may step back unnoticed.
	maxSkew = 10 * time.Second
	// earliness is how long before its time a retry is handed to a process, which
	// then holds it: the server looks at its schedules four times a second at most.
	earliness = 600 * time.Millisecond
	// retryFormat: 1 does not say when a retry was decided.
	retryFormat = 2
)

// settle does what follows from an outcome that is stored: it schedules the next
// attempt and keeps the failed calls. To do it twice does no harm.
//
// given are the calls that it gave up.
func (j *Journal) settle(o *outcome, given []tracking.Call) error {
	ctx := j.ctx
	if len(o.again) > 0 {
		if err := j.schedule(ctx, o.destination, retryItem(o)); err != nil {
			return fmt.Errorf("scheduling a retry: %w", err)
		}
	}
	if len(given) > 0 && j.concerns(o) {
		if err := j.keepFailed(ctx, o, given); err != nil {
			return fmt.Errorf("keeping failed calls: %w", err)
		}
	}
	return nil
}

// concerns tells whether an outcome is about a destination as it is attached now.
func (j *Journal) concerns(o *outcome) bool {
	same := false
	return j.account.with(o.destination, func(b *book) { same = b.attached == o.attached }) && same
}

// retryItem returns the next attempt of an outcome.
func retryItem(o *outcome) *item {
	return &item{ref: o.ref, attempt: o.attempt + 1, places: o.again, notes: o.notes, decided: o.decided, due: o.due}
}

// schedule publishes a retry: to be held by the server until its time, or, where
// that is near, at once. There is one message for each part of a message of
// calls; the next attempt replaces the one before. Where the clock has stepped back
// the server may hold a schedule for this attempt that is far ahead, and gets another
// in its place.
func (j *Journal) schedule(ctx context.Context, destination string, it *item) error {
	waits := false
	j.account.with(destination, func(b *book) {
		r, ok := b.retries[it.ref]
		waits, it.from = ok && r.attempt == it.attempt, r.outcome
	})
	if !waits {
		return nil // it has ended, or the destination was detached
	}
	_, err := j.publish(ctx, j.nc, j.retryMessage(destination, it, time.Now()))
	return err
}

// retryMessage returns the message of RETRY that schedules a retry.
func (j *Journal) retryMessage(destination string, it *item, now time.Time) *nats.Msg {
	number, t := strconv.FormatUint(it.ref.number(), 10), token(destination)
	due := j.names.subject("due", t, number)
	m := nats.NewMsg(due)
	m.Data = encodeRetry(it)
	if at := it.dueFrom(now).Add(-earliness); at.After(now) || it.isAhead(now) {
		m.Subject = j.names.subject("at", t, number)
		m.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
		m.Header.Set("Nats-Schedule-Target", due)
	}
	return m
}

// isAhead reports whether a retry was decided after now: the clock has stepped back
// since.
func (it *item) isAhead(now time.Time) bool { return isAhead(it.decided.UnixNano(), now) }

// isAhead reports whether a time, in nanoseconds, lies so far ahead of now that the
// clock must have stepped back.
func isAhead(at int64, now time.Time) bool { return at-now.UnixNano() > int64(maxSkew) }

// dueFrom returns when a retry is due, seen from now. A retry waits no longer than the
// time for which it was put off: where the clock has stepped back since it is due now.
// The result is on the monotonic clock, so that later steps do not move it.
func (it *item) dueFrom(now time.Time) time.Time {
	if it.isAhead(now) {
		return now
	}
	return now.Add(it.due.Sub(now))
}

func encodeRetry(it *item) []byte {
	b := []byte{retryFormat}
	b = binary.AppendUvarint(b, it.ref.number())
	b = binary.AppendUvarint(b, uint64(it.attempt))
	b = binary.AppendUvarint(b, it.from)
	b = binary.AppendVarint(b, it.decided.UnixNano())
	b = binary.AppendVarint(b, it.due.UnixNano())
	b = binary.AppendUvarint(b, uint64(len(it.places)))
	b = appendPlaces(b, it.places)
	return appendText(b, strings.Join(it.notes, ","))
}

func decodeRetry(data []byte) (*item, error) {
	if len(data) == 0 || data[0] < 1 || data[0] > retryFormat {
		return nil, fmt.Errorf("journal: a stored retry has format %.1x, not 1 to %d", data, retryFormat)
	}
	d := decoder{rest: data[1:]}
	it := &item{ref: refOf(d.uint()), attempt: d.int(1 << 30), from: d.uint(), decided: time.Unix(0, 0)}
	if data[0] > 1 {
		it.decided = d.time()
	}
	it.due = d.time()
	n := d.int(partCalls)
	if n > 0 {
		it.places = d.places(n)
	}
	it.notes = d.notes(n)
	if d.failed || len(d.rest) > 0 {
		return nil, errors.New("journal: a stored retry is damaged")
	}
	return it, nil
}

// settleLater tries again to do what follows from an outcome, until it is done
// or the journal is closed: then it is done at the next start.
func (j *Journal) settleLater(q *queue, it *item, o *outcome, given []tracking.Call) {
	go func() {
		for sleep(j.ctx, time.Second) == nil {
			if j.settle(o, given) == nil {
				j.ack(q.drop(it))
				return
			}
		}
	}()
}

// load reads a message of CALLS.
func (j *Journal) load(ctx context.Context, seq uint64) (*callsMessage, [][]byte, error) {
	raw, err := j.calls.GetMsg(ctx, seq)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: message %d of CALLS: %w", seq, err)
	}
	m, err := j.names.parseCalls(seq, raw.Subject, raw.Header)
	if err != nil {
		return nil, nil, err
	}
	bodies, err := decodeCalls(raw.Data)
	return m, bodies, err
}

// isMissing tells whether what was stored is gone for good.
func isMissing(err error) bool {
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, errBadSegment)
}

// giveUp ends an item whose calls cannot be read: they count as failed, and
// nothing of them is left to be replayed.
func (q *queue) giveUp(it *item) {
	o := &outcome{destination: q.name, attached: q.attached, ref: it.ref, attempt: it.attempt}
	places := it.places
	if places == nil && it.parcel != nil {
		places = allPlaces(it.ref, it.parcel.calls)
	}
	for _, place := range places {
		o.failed = append(o.failed, failure{place, "the call is no longer stored, or damaged"})
	}
	written := q.journal.results.write(o)
	go func() {
		if state := <-written; state.err != nil {
			q.putOff(it)
			return
		}
		q.journal.ack(q.drop(it))
	}()
}
