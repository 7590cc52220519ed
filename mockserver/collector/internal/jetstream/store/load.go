package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// LoadCalls reads a message of CALLS.
func (s *Store) LoadCalls(ctx context.Context, seq uint64) (*record.Calls, [][]byte, error) {
	raw, err := s.JS.Get(ctx, s.Names.Stream(record.StreamCalls), seq)
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

// IsMissing reports whether err means that a stored message is permanently lost.
func IsMissing(err error) bool {
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, record.ErrBadSegment)
}

// Outcomes reads outcomes. It caches the last message of OUTCOMES that it has read, because a message
// usually contains several outcomes.
type Outcomes struct {
	last *record.Outcomes // nil if none was read
}

// Get returns the outcome of a part for a destination from message seq of OUTCOMES.
func (r *Outcomes) Get(ctx context.Context, s *Store, seq uint64, destination string, ref record.Ref) (*record.Outcome, error) {
	if r.last == nil || r.last.Seq != seq {
		raw, err := s.JS.Get(ctx, s.Names.Stream(record.StreamOutcomes), seq)
		if err != nil {
			return nil, fmt.Errorf("message %d of OUTCOMES: %w", seq, err)
		}
		m, err := record.ParseOutcomes(raw)
		if err != nil {
			return nil, err
		}
		r.last = m
	}
	for i := range r.last.All {
		if o := &r.last.All[i]; o.Destination == destination && o.Ref == ref {
			return o, nil
		}
	}
	return nil, fmt.Errorf("message %d of OUTCOMES has no outcome of message %d of CALLS for %q", seq, ref.Seq, destination)
}
