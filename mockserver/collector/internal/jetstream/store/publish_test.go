package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A slowLeader is the leader of a cluster that stores a message within the duration takes. It rejects the
// message's ID in the meantime.
type slowLeader struct {
	Streams
	takes  time.Duration
	stored map[string]time.Time // when each message will be stored, by its ID
}

func (s *slowLeader) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	id := m.Header.Get(nats.MsgIdHdr)
	at, known := s.stored[id]
	switch {
	case id == "":
		return 0, &jetstream.APIError{Code: 400, Description: "the message has no ID"}
	case !known:
		s.stored[id] = time.Now().Add(s.takes)
		<-ctx.Done()
		return 0, ctx.Err()
	case time.Now().Before(at):
		return 0, &jetstream.APIError{Code: 409, ErrorCode: 10158, Description: "duplicate message id is in process"}
	}
	return 7, nil
}

// TestSlowClusterStoresValueOnce checks that a value is stored once if the cluster needs longer than one
// try.
func TestSlowClusterStoresValueOnce(t *testing.T) {
	put := func(ctx context.Context, s state.Store) error { return s.Put(ctx, "k", nil) }
	update := func(ctx context.Context, s state.Store) error {
		revision, err := s.Update(ctx, "k", nil, 3)
		if err == nil && revision != 7 {
			return errors.New("wrong revision")
		}
		return err
	}
	for name, test := range map[string]struct {
		change func(context.Context, state.Store) error
		takes  time.Duration
		stored bool
	}{
		"put":                 {put, 5 * time.Second, true},
		"update":              {update, 5 * time.Second, true},
		"put, no response":    {put, time.Minute, false},
		"update, no response": {update, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("test", true, slog.New(slog.DiscardHandler))
				defer s.Cancel(nil)
				s.Status.Up()
				leader := &slowLeader{takes: test.takes, stored: map[string]time.Time{}}
				s.JS = leader
				began := time.Now()
				err := test.change(t.Context(), NewBucket(s, record.BucketState, func(record.Accepted) {}, nil))
				assert.Len(t, leader.stored, 1)
				if test.stored {
					assert.NoError(t, err)
					return
				}
				assert.True(t, MayBeStored(err), err)
				assert.NotErrorIs(t, err, state.ErrConflict)
				assert.Equal(t, PublishTimeout, time.Since(began))
			})
		})
	}
}

// A disputed subject has a message in flight: until a time, the leader rejects other messages. Then it
// either stores that message, or loses it and stores the next one.
type disputed struct {
	Streams
	until time.Time
	lost  bool // whether the message in flight is lost
}

func (d *disputed) Publish(context.Context, *nats.Msg) (uint64, error) {
	switch {
	case time.Now().Before(d.until):
		return 0, &jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}
	case d.lost:
		return 7, nil
	}
	return 0, &jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: 6"}
}

// TestConflictIsDecided checks that a conflict with a message in flight is not reported before the
// server has stored or lost that message.
func TestConflictIsDecided(t *testing.T) {
	update := func(s *Store) error {
		_, err := NewBucket(s, record.BucketState, func(record.Accepted) {}, nil).Update(s.Ctx, "k", nil, 3)
		return err
	}
	try := func(s *Store) error {
		m := nats.NewMsg("claim")
		ExpectLast(m, 3)
		_, err := s.Try(s.Ctx, s.JS, m)
		return err
	}
	lock := func(s *Store) error { return NewLock(s, "lock").Take(s.Ctx) }
	for name, test := range map[string]struct {
		change   func(*Store) error
		takes    time.Duration
		lost     bool
		conflict bool
		waits    time.Duration // if the conflict is not decided
	}{
		"update, another process wins": {change: update, takes: 5 * time.Second, conflict: true},
		"update, this process wins":    {change: update, takes: 5 * time.Second, lost: true},
		"update, undecided":            {change: update, takes: time.Minute, waits: PublishTimeout},
		"lock, another process wins":   {change: lock, takes: 5 * time.Second, conflict: true},
		"lock, this process wins":      {change: lock, takes: 5 * time.Second, lost: true},
		"try, another process wins":    {change: try, takes: time.Second, conflict: true},
		"try, this process wins":       {change: try, takes: time.Second, lost: true},
		"try, undecided":               {change: try, takes: time.Minute, waits: tryTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("test", true, slog.New(slog.DiscardHandler))
				defer s.Cancel(nil)
				s.Status.Up()
				began := time.Now()
				s.JS = &disputed{until: began.Add(test.takes), lost: test.lost}
				err := test.change(s)
				assert.Equal(t, test.conflict, IsWrongSequence(err) || errors.Is(err, state.ErrConflict), err)
				assert.Equal(t, !test.lost, err != nil, err)
				waited := time.Since(began)
				if test.waits > 0 {
					assert.Equal(t, test.waits, waited)
					assert.True(t, IsTransient(err), err)
					return
				}
				assert.GreaterOrEqual(t, waited, test.takes)
				assert.Less(t, waited, test.takes+time.Second)
			})
		})
	}
}
