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
		"put":               {put, 5 * time.Second, true},
		"update":            {update, 5 * time.Second, true},
		"put, no answer":    {put, time.Minute, false},
		"update, no answer": {update, time.Minute, false},
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
				assert.True(t, IsUnanswered(err), err)
				assert.NotErrorIs(t, err, state.ErrConflict)
				assert.Equal(t, PublishTimeout, time.Since(began))
			})
		})
	}
}
