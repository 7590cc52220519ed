package store

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// stalling is a stream whose consumers report the given numbers of pending messages, one number per
// consumer, and deliver nothing.
type stalling struct {
	Streams
	pending []uint64
}

func (s *stalling) CreateConsumer(context.Context, string, jetstream.ConsumerConfig) (Consumer, error) {
	c := stalled{&jetstream.ConsumerInfo{NumPending: s.pending[0]}}
	s.pending = s.pending[1:]
	return c, nil
}

func (*stalling) DeleteConsumer(context.Context, string, string) error { return nil }

type stalled struct{ info *jetstream.ConsumerInfo }

func (c stalled) CachedInfo() *jetstream.ConsumerInfo                   { return c.info }
func (c stalled) Info(context.Context) (*jetstream.ConsumerInfo, error) { return c.info, nil }
func (stalled) Stop()                                                   {}
func (stalled) Fetch(ctx context.Context, n int, _ time.Duration) (Batch, error) {
	return newBatch(ctx, n, time.Hour), nil
}

// TestStalledConsumerIsReplaced checks that a scan does not rely on one consumer's number of pending
// messages, which the server caches. It may still include messages that were removed.
func TestStalledConsumerIsReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		pending []uint64
		damaged bool
	}{
		"no message is left": {[]uint64{1, 0}, false},
		"unreadable message": {[]uint64{1, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("test", false, slog.New(slog.DiscardHandler))
				defer s.Cancel(nil)
				s.JS = &stalling{pending: test.pending}
				err := s.Tail(record.StreamState, 8, nil).Scan(t.Context())
				if test.damaged {
					assert.ErrorIs(t, err, record.ErrDamaged)
				} else {
					assert.NoError(t, err)
				}
			})
		})
	}
}
