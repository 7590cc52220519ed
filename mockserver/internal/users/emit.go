package users

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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

// Calls that the collector makes itself, for deletion requests, audiences and
// computed traits, take the same path as those of senders from the journal on.
const (
	// defaultBatchCalls is how many of them make a batch, at most.
	defaultBatchCalls = 500
	// emitBytes is how many bytes of them make a batch; the last call may go beyond.
	emitBytes = 256 << 10
)

// emit stores the calls that were added. Where they may be stored already, because a
// process was killed or this is tried again, those that are known to be are left out.
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

// emitted ends a batch that is stored. Where its record could not be told, which is err,
// its calls are known when they are made again.
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

// learn remembers which calls of a batch are stored all the same.
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

// An emitter makes the calls of one deletion request or sync, in batches. They
// differ in little; the rest is encoded once.
type emitter struct {
	typ       string
	source    string
	timestamp time.Time // when it happened
	members   []byte    // of the calls' bodies, that are the same in each, each with a comma before it

	calls []ownCall // of the batch that is being made
	bytes int       // about, of their bodies
}

// An ownCall is what is special to a call.
type ownCall struct {
	id, userID string
	traits     []byte // a JSON object, or nil
}

// newEmitter makes calls that only some destinations get. A nil context is left
// out.
func newEmitter(typ, source string, timestamp time.Time, destinations []string, context map[string]any) (*emitter, error) {
	same, err := json.Marshal(struct {
		Context      map[string]any `json:"context,omitempty"`
		Integrations any            `json:"integrations"`
	}{context, routing.ScopeTo(destinations)})
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	same[0], same = ',', same[:len(same)-1] // members behind others, in place of an object
	return &emitter{typ: typ, source: source, timestamp: timestamp.UTC().Truncate(time.Millisecond), members: same}, nil
}

func (e *emitter) add(id, userID string, traits []byte) {
	e.calls = append(e.calls, ownCall{id, userID, traits})
	e.bytes += len(id) + len(userID) + len(traits) + len(e.members)
}

// full reports whether the batch has as many calls as it may, or bytes.
func (e *emitter) full(calls int) bool { return len(e.calls) >= calls || e.bytes >= emitBytes }

// batch returns the calls that were added, as received now.
func (e *emitter) batch(now time.Time) event.Batch {
	b := event.Batch{Source: e.source, ReceivedAt: now, Calls: make([]tracking.Call, len(e.calls))}
	for i, c := range e.calls {
		b.Calls[i] = e.call(now, c)
	}
	return b
}

func (e *emitter) call(now time.Time, of ownCall) tracking.Call {
	c := tracking.Call{
		ID: of.id, Source: e.source, Type: e.typ, UserID: of.userID,
		ReceivedAt: now.UTC().Truncate(time.Millisecond), Timestamp: e.timestamp,
	}
	b := make([]byte, 0, 160+len(of.userID)+len(of.id)+len(of.traits)+len(e.members))
	b = fields.AppendString(append(b, `{"type":`...), c.Type)
	b = fields.AppendString(append(b, `,"userId":`...), c.UserID)
	if of.traits != nil {
		b = append(append(b, `,"traits":`...), of.traits...)
	}
	b = append(b, e.members...)
	b = fields.AppendString(append(b, `,"messageId":`...), c.ID)
	b = fields.AppendTimeMember(b, `,"receivedAt":"`, c.ReceivedAt)
	b = fields.AppendTimeMember(b, `,"timestamp":"`, c.Timestamp)
	c.Body = append(b, '}')
	return c
}

// superseded is the reason of notices that a newer list has overtaken.
const superseded = "superseded: a newer list says otherwise of the user"

// Superseded returns why a call must not be sent any more: it tells of a user in an
// audience or a computed trait, whose current list says otherwise. It is empty for every
// other call, and where the list cannot be read.
func (u *Service) Superseded(ctx context.Context, c *tracking.Call) (reason string) {
	id, number, ok := computationOfMessage(c.ID)
	if !ok {
		return ""
	}
	var told struct{ Traits map[string]json.RawMessage }
	if json.Unmarshal(c.Body, &told) != nil {
		return ""
	}
	for unreadable := ""; ; {
		r, err := u.loadComputation(ctx, id)
		if err != nil || c.Source != r.Source || c.ID != r.messageID(fmt.Sprintf("%s-%d", id, number), c.UserID) || number >= r.begun() {
			return ""
		}
		list := r.telling()
		now, err := u.valueIn(ctx, r, list, c.UserID)
		switch {
		case err == nil && bytes.Equal(told.Traits[r.Key], now), err != nil && list.Upload == unreadable:
			return ""
		case err == nil:
			return superseded
		}
		unreadable = list.Upload // another list may have replaced it meanwhile
	}
}

// computationOfMessage returns the computation and the number of the sync that a
// messageId names, which anyone may have made up.
func computationOfMessage(messageID string) (id string, sync int, ok bool) {
	parts := strings.SplitN(messageID, "-", 4)
	if len(parts) != 4 || parts[0] != string(KindAudience) && parts[0] != string(KindTrait) || !text.IsDigest(parts[1]) {
		return "", 0, false
	}
	sync, err := strconv.Atoi(parts[2])
	return parts[1], sync, err == nil
}

// valueIn returns the JSON that tells of a user as a list of a computation has it.
func (u *Service) valueIn(ctx context.Context, r computationRecord, list storedList, user string) ([]byte, error) {
	e, listed, err := roster.Find(list.Segments, u.segments(ctx, r.ID, list), user)
	return r.Kind.value(e.Value, listed), err
}
