package jetstream

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// otherHeaders is an upper bound for the headers of a FAILED message except IDs and
// reasons.
const otherHeaders = 1 << 10

// storeFailed stores the failed calls of an outcome, and those filtered calls that can be replayed.
func (j *Journal) storeFailed(ctx context.Context, o *record.Outcome, failed []tracking.Call, traces event.Traces) error {
	m := callsMessage(j.failedSubject(o), failed, traces)
	why := record.Reasons{Source: failed[0].Source, Attempts: o.Attempt}
	why.Reasons, why.Of = record.ReasonsOf(o.Failed)
	m.Header.Set(record.HeaderReasons, why.Header(maxHeaders-otherHeaders-len(m.Header.Get(record.HeaderIDs))-len(m.Header.Get(record.HeaderTraces))))
	record.SetTime(m.Header, o.Decided)
	store.ExpectLast(m, 0) // a second copy would move the message to the end, where a concurrent listing would miss it
	_, err := j.Publish(ctx, m)
	if store.IsWrongSequence(err) { // the message is stored
		return nil
	}
	return err
}

// callsMessage encodes calls as the message of a subject.
func callsMessage(subject string, calls []tracking.Call, traces event.Traces) *nats.Msg {
	bodies, ids := make([][]byte, len(calls)), make([]string, len(calls))
	for i := range calls {
		bodies[i], ids[i] = calls[i].Body, calls[i].ID
	}
	m := nats.NewMsg(subject)
	m.Data = record.AppendSegment([]byte{record.CallsFormat}, bodies)
	m.Header.Set(record.HeaderCalls, strconv.Itoa(len(calls)))
	m.Header.Set(record.HeaderIDs, string(record.AppendIDs(nil, ids)))
	if traced := record.TracesOf(traces); traced != "" {
		m.Header.Set(record.HeaderTraces, traced)
	}
	return m
}

// eachFailed calls f with a destination's messages in a span of FAILED, oldest first. It skips messages
// from before the destination was attached, because an interrupted Detach leaves them in FAILED.
func (j *Journal) eachFailed(ctx context.Context, destination string, span record.Span, headersOnly bool, f func(*record.FailedMessage) error) error {
	var attached uint64
	j.ledger.With(destination, func(a *ledger.Account) { attached = a.Attached })
	t := j.TailFailed(record.Token(destination), span.First, func(m *record.FailedMessage) error {
		if record.RefOf(m.Ref.Number).Seq < attached {
			return nil
		}
		return f(m)
	})
	t.Last, t.HeadersOnly = span.Last, headersOnly
	return t.Scan(ctx)
}

// marks returns the marks of replayed calls, keyed by the token of their FAILED message. It
// includes replays that have no stored marks yet.
func (j *Journal) marks(ctx context.Context, destination string) (map[string]record.Mark, error) {
	var unmarked []record.FailedRef // read before the marks, so that marks stored in the meantime are included
	err := j.eachUnmarked(ctx, destination, func(m *record.Calls) error {
		unmarked = append(unmarked, m.Failed...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	marks := map[string]record.Mark{}
	t := j.Tail(record.StreamFailed, 1, func(m *jetstream.RawStreamMsg) error {
		marks[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]] = m.Data
		return nil
	})
	t.Subjects = []string{j.Names.Subject("m", record.Token(destination), "*")}
	if err := t.Scan(ctx); err != nil {
		return nil, err
	}
	for _, ref := range unmarked {
		marks[ref.Token()] = marks[ref.Token()].With(ref.Places)
	}
	return marks, nil
}

// maxTries is the number of attempts at an optimistic update.
const maxTries = 10

// markReplayed removes calls from the list of failed calls. It stores nothing if they are already removed.
func (j *Journal) markReplayed(ctx context.Context, destination string, refs []record.FailedRef) error {
	for _, ref := range refs {
		for try := 1; ; try++ {
			m, err := j.markMessage(ctx, destination, ref)
			if err == nil && m != nil {
				_, err = j.Publish(ctx, m)
			}
			if err == nil {
				break
			}
			if !store.IsWrongSequence(err) || try == maxTries {
				return err
			}
		}
	}
	return nil
}

// markMessage returns the updated mark of a FAILED message, or nil if the calls are already marked. Publishing
// the mark fails if another mark was stored in the meantime. A late message therefore cannot undo a newer
// mark.
func (j *Journal) markMessage(ctx context.Context, destination string, ref record.FailedRef) (*nats.Msg, error) {
	old, err := j.loadMark(ctx, destination, ref)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(old.Subject)
	have := record.Mark(old.Data)
	if m.Data = have.With(ref.Places); bytes.Equal(m.Data, have) {
		return nil, nil
	}
	store.ExpectLast(m, old.Sequence)
	return m, nil
}

// loadMark returns the mark of a FAILED message. It is empty if none is stored.
func (j *Journal) loadMark(ctx context.Context, destination string, ref record.FailedRef) (*jetstream.RawStreamMsg, error) {
	subject := j.Names.Subject("m", record.Token(destination), ref.Token())
	m, err := j.JS.Last(ctx, j.Names.Stream(record.StreamFailed), subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &jetstream.RawStreamMsg{Subject: subject}, nil
	}
	return m, err
}

// A process may be killed after it has stored a replay and before it has marked the calls as
// replayed. A listing of failed calls therefore also reads unmarked replays. Each replay first
// marks the replays before it.

// marked returns the sequence number of a replay for a destination. This replay and all earlier
// replays are marked.
func (j *Journal) marked(destination string) (seq uint64) {
	j.ledger.With(destination, func(a *ledger.Account) { seq = a.Attached })
	j.replays.mu.Lock()
	defer j.replays.mu.Unlock()
	return max(seq, j.replays.marked[destination])
}

func (j *Journal) setMarked(destination string, seq uint64) {
	j.replays.mu.Lock()
	defer j.replays.mu.Unlock()
	j.replays.marked[destination] = max(seq, j.replays.marked[destination])
}

// eachUnmarked calls f with each replay for a destination that may not be marked.
func (j *Journal) eachUnmarked(ctx context.Context, destination string, f func(*record.Calls) error) error {
	t := j.TailCalls(j.marked(destination)+1, f)
	t.Subjects = []string{j.replaySubject(destination)}
	return t.Scan(ctx)
}

func (j *Journal) replaySubject(destination string) string {
	return j.Names.Subject(record.KindReplay, record.Token(destination))
}
