package users

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Limits of the batches of synthetic calls.
const (
	// defaultBatchCalls is the default of Config.BatchCalls.
	defaultBatchCalls = 500
	// emitBytes is the size at which a batch is full. The last call may exceed it.
	emitBytes = 256 << 10
)

// emit stores the added calls, and marks them as known: they are not stored again, and Superseded
// recognizes them. perhapsStored reports that some of them may already be stored, after a crash or a
// failed attempt. In this case, emit removes known calls first.
func (u *Service) emit(ctx context.Context, e *emitter, perhapsStored bool) error {
	b := e.batch(time.Now())
	if perhapsStored {
		b = u.config.Known.Without(b)
	}
	if len(b.Calls) == 0 {
		return nil
	}
	err := u.config.Journal.Append(ctx, b)
	var partly *journal.AppendError
	switch {
	case errors.As(err, &partly):
		known := make(chan int, 1)
		go func() { known <- partly.Stored() }() // returns at the latest when the journal closes
		select {
		case n := <-known:
			b.Calls = b.Calls[:n]
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	case err != nil:
		return err
	}
	for i := range b.Calls {
		u.config.Known.Add(b.Source, b.Calls[i].ID)
	}
	if len(b.Calls) > 0 {
		u.config.Observer.Observe(event.Accepted{Batch: b})
	}
	return err
}

// An emitter creates the calls of one deletion request or sync, in batches. It encodes the
// common fields once.
type emitter struct {
	typ       string
	source    string
	timestamp time.Time // timestamp of all calls
	common    []byte    // encoded fields that all bodies have in common, each after a comma

	calls []syntheticCall // calls of the current batch
	bytes int             // approximate size of the bodies of calls
}

// A syntheticCall contains the fields that differ between calls.
type syntheticCall struct {
	id, userID string
	traits     []byte // a JSON object, or nil
}

// newEmitter returns an emitter of calls that only the given destinations receive. context may
// be nil.
func newEmitter(typ, source string, timestamp time.Time, destinations []string, context map[string]any) (*emitter, error) {
	same, err := json.Marshal(struct {
		Context      map[string]any `json:"context,omitempty"`
		Integrations any            `json:"integrations"`
	}{context, routing.ScopeTo(destinations)})
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	same[0], same = ',', same[:len(same)-1] // replaces the opening brace and removes the closing one
	return &emitter{typ: typ, source: source, timestamp: timestamp.UTC().Truncate(time.Millisecond), common: same}, nil
}

func (e *emitter) add(id, userID string, traits []byte) {
	e.calls = append(e.calls, syntheticCall{id, userID, traits})
	e.bytes += len(id) + len(userID) + len(traits) + len(e.common)
}

// reset discards the added calls.
func (e *emitter) reset() {
	clear(e.calls)
	e.calls, e.bytes = e.calls[:0], 0
}

// full reports whether the batch has enough calls or bytes.
func (e *emitter) full(calls int) bool { return len(e.calls) >= calls || e.bytes >= emitBytes }

// batch returns a batch with the added calls, received at now.
func (e *emitter) batch(now time.Time) event.Batch {
	b := event.Batch{Source: e.source, ReceivedAt: now, Calls: make([]tracking.Call, len(e.calls))}
	for i, c := range e.calls {
		b.Calls[i] = e.call(now, c)
	}
	return b
}

func (e *emitter) call(now time.Time, of syntheticCall) tracking.Call {
	c := tracking.Call{
		ID: of.id, Source: e.source, Type: e.typ, UserID: of.userID,
		ReceivedAt: now.UTC().Truncate(time.Millisecond), Timestamp: e.timestamp,
	}
	b := make([]byte, 0, 160+len(of.userID)+len(of.id)+len(of.traits)+len(e.common))
	b = fields.AppendString(append(b, `{"type":`...), c.Type)
	b = fields.AppendString(append(b, `,"userId":`...), c.UserID)
	if of.traits != nil {
		b = append(append(b, `,"traits":`...), of.traits...)
	}
	b = append(b, e.common...)
	b = fields.AppendString(append(b, `,"messageId":`...), c.ID)
	b = fields.AppendTimeMember(b, `,"receivedAt":"`, c.ReceivedAt)
	b = fields.AppendTimeMember(b, `,"timestamp":"`, c.Timestamp)
	c.Body = append(b, '}')
	return c
}
