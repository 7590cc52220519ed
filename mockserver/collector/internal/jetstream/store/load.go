package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// LoadCalls reads a message of CALLS. The message must have been stored, but it may have been lost since.
func (s *Store) LoadCalls(ctx context.Context, seq uint64) (*record.Calls, [][]byte, error) {
	raw, err := s.JS.Get(ctx, s.Names.Stream(record.StreamCalls), seq)
	if s.Shared && errors.Is(err, jetstream.ErrMsgNotFound) {
		raw, err = s.getReached(ctx, seq)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("journal: message %d of CALLS: %w", seq, err)
	}
	m, err := s.Names.ParseCalls(raw)
	if err != nil {
		return nil, nil, err
	}
	bodies, err := record.DecodeCalls(raw.Data)
	return m, bodies, err
}

// getReached reads a message of CALLS again after a server of a cluster has not found it. A server that has just
// become the leader may not have received the newest messages yet. For these, the error is not ErrMsgNotFound.
func (s *Store) getReached(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	state, err := s.Measure(ctx, record.StreamCalls)
	if err != nil {
		return nil, err
	}
	if state.LastSeq < seq {
		return nil, fmt.Errorf("the server has CALLS only up to message %d", state.LastSeq)
	}
	return s.JS.Get(ctx, s.Names.Stream(record.StreamCalls), seq)
}

// EachPresence calls f with the destinations of each process of a cluster.
func (s *Store) EachPresence(ctx context.Context, f func(writer uint64, destinations []string)) error {
	t := s.Tail(record.StreamState, 1, func(m *jetstream.RawStreamMsg) error {
		var destinations []string
		writer, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 16, 64)
		if err == nil {
			err = json.Unmarshal(m.Data, &destinations)
		}
		if err != nil {
			return fmt.Errorf("journal: decoding the destinations of another collector: %w", err)
		}
		f(writer, destinations)
		return nil
	})
	t.Subjects = []string{s.Names.Subject("s", "has", "*")}
	return t.Scan(ctx)
}

// IsMissing reports whether err means that a stored message is permanently lost.
func IsMissing(err error) bool {
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, record.ErrBadSegment)
}

// Notes reads the notes of retries. It caches the last message of OUTCOMES that it has read, because a
// message usually contains several outcomes.
type Notes struct {
	last *record.Outcomes // nil if none was read
}

// Add adds the notes of a destination's retry, which are part of its outcome in OUTCOMES.
func (r *Notes) Add(ctx context.Context, s *Store, destination string, it *record.Retry) error {
	seq := it.From
	if seq == 0 {
		return nil
	}
	if r.last == nil || r.last.Seq != seq {
		raw, err := s.JS.Get(ctx, s.Names.Stream(record.StreamOutcomes), seq)
		if err != nil {
			return fmt.Errorf("message %d of OUTCOMES: %w", seq, err)
		}
		m, err := record.ParseOutcomes(raw)
		if err != nil {
			return err
		}
		r.last = m
	}
	for i := range r.last.All {
		if o := &r.last.All[i]; o.Destination == destination && o.Ref == it.Ref {
			it.Notes = o.Notes
			return nil
		}
	}
	return fmt.Errorf("message %d of OUTCOMES has no outcome of message %d of CALLS for %q", seq, it.Ref.Seq, destination)
}
