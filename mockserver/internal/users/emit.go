package users

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Synthetic calls for deletion requests, audiences and computed traits are stored in the journal
// and delivered like the calls of senders.
const (
	// defaultBatchCalls is the default of Config.BatchCalls.
	defaultBatchCalls = 500
	// emitBytes is the size at which a batch is full. The last call may exceed it.
	emitBytes = 256 << 10
)

// emit stores the added calls. perhapsStored reports that some may be stored already, after a
// crash or a failed attempt; emit removes the known ones.
func (u *Service) emit(ctx context.Context, e *emitter, perhapsStored bool) error {
	b := e.batch(time.Now())
	if perhapsStored {
		b = u.config.Known.Without(b)
	}
	if len(b.Calls) == 0 {
		return nil
	}
	err := u.config.Journal.Append(ctx, b)
	if err == nil {
		u.config.Observer.Observe(event.Accepted{Batch: b})
	}
	var partly *journal.AppendError
	if errors.As(err, &partly) {
		return errors.Join(err, u.learn(ctx, b, partly))
	}
	return err
}

// emitted ends a stored batch. If err is not nil, the record does not contain it, and its calls
// become known, so that they are not stored again.
func (u *Service) emitted(e *emitter, err error) error {
	if err != nil {
		for _, c := range e.calls {
			u.config.Known.Add(e.source, c.id)
		}
	}
	clear(e.calls)
	e.calls, e.bytes = e.calls[:0], 0
	return err
}

// learn makes the stored calls of a failed batch known.
func (u *Service) learn(ctx context.Context, b event.Batch, partly *journal.AppendError) error {
	known := make(chan int, 1)
	go func() { known <- partly.Stored() }() // ends with the journal
	select {
	case n := <-known:
		b.Calls = b.Calls[:n]
	case <-ctx.Done():
		return ctx.Err()
	}
	for i := range b.Calls {
		u.config.Known.Add(b.Source, b.Calls[i].ID)
	}
	if len(b.Calls) > 0 {
		u.config.Observer.Observe(event.Accepted{Batch: b})
	}
	return nil
}

// An emitter creates the calls of one deletion request or sync, in batches. It encodes the
// common fields once.
type emitter struct {
	typ       string
	source    string
	timestamp time.Time // of all calls
	common    []byte    // common fields of the bodies, each after a comma

	calls []syntheticCall // of the current batch
	bytes int             // approximate size of their bodies
}

// A syntheticCall contains the fields that differ between calls.
type syntheticCall struct {
	id, userID string
	traits     []byte // a JSON object, or nil
}

// newEmitter returns an emitter of calls for some destinations only. context may be nil.
func newEmitter(typ, source string, timestamp time.Time, destinations []string, context map[string]any) (*emitter, error) {
	same, err := json.Marshal(struct {
		Context      map[string]any `json:"context,omitempty"`
		Integrations any            `json:"integrations"`
	}{context, routing.ScopeTo(destinations)})
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	same[0], same = ',', same[:len(same)-1] // replace the opening brace, remove the closing one
	return &emitter{typ: typ, source: source, timestamp: timestamp.UTC().Truncate(time.Millisecond), common: same}, nil
}

func (e *emitter) add(id, userID string, traits []byte) {
	e.calls = append(e.calls, syntheticCall{id, userID, traits})
	e.bytes += len(id) + len(userID) + len(traits) + len(e.common)
}

// full reports whether the batch has enough calls or bytes.
func (e *emitter) full(calls int) bool { return len(e.calls) >= calls || e.bytes >= emitBytes }

// batch returns the added calls as a batch received at now.
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

// superseded is the reason of notices that a newer list contradicts.
const superseded = "superseded: a newer list contradicts this call"

// Superseded returns the reason not to send a call: it is a notice of an audience or a
// computed trait with a newer list that contradicts it. The reason is empty for every other
// call, and if the list cannot be read.
//
// A list is newer if its timestamp is later. The number of the sync does not decide: a
// computation that was deleted begins again at 1, with another secret.
func (u *Service) Superseded(ctx context.Context, c *tracking.Call) (reason string) {
	id, ok := computationOfMessage(c.ID)
	if !ok {
		return ""
	}
	var notice struct {
		Timestamp time.Time
		Traits    map[string]json.RawMessage
	}
	if json.Unmarshal(c.Body, &notice) != nil {
		return ""
	}
	for unreadable := ""; ; {
		r, err := u.loadComputation(ctx, id)
		if err != nil || c.Source != r.Source || !notice.Timestamp.Before(r.begun()) {
			return ""
		}
		list := r.latest()
		now, err := u.valueIn(ctx, r, list, c.UserID)
		switch {
		case err == nil && bytes.Equal(notice.Traits[r.Key], now), err != nil && list.Upload == unreadable:
			return ""
		case err == nil:
			return superseded
		}
		unreadable = list.Upload // another list may have replaced it in the meantime
	}
}

// computationOfMessage returns the ID of the computation whose notice has a messageId.
func computationOfMessage(messageID string) (id string, ok bool) {
	kind, rest, _ := strings.Cut(messageID, "-")
	id, _, _ = strings.Cut(rest, "-")
	return id, (kind == string(KindAudience) || kind == string(KindTrait)) && text.IsDigest(id)
}

// valueIn returns the JSON value of the trait for a user according to a list.
func (u *Service) valueIn(ctx context.Context, r computationRecord, list storedList, user string) ([]byte, error) {
	e, listed, err := roster.Find(list.Segments, u.segments(ctx, r.ID, list), user)
	return r.Kind.value(e.Value, listed), err
}
