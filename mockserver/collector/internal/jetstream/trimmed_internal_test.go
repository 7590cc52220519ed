package jetstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A trimmedStreams calls trim once, if it is set, before it creates a consumer that reads CALLS from a given
// sequence number. If from is not 0, only a consumer that starts at from counts.
type trimmedStreams struct {
	store.Streams
	from uint64
	trim atomic.Pointer[func()]
	down atomic.Bool // whether Last gets no response
}

func (s *trimmedStreams) Last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	if s.down.Load() {
		return nil, journal.ErrNoResponse
	}
	return s.Streams.Last(ctx, stream, subject)
}

func (s *trimmedStreams) CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (store.Consumer, error) {
	isWanted := s.from == 0 || s.from == config.OptStartSeq
	if isWanted && strings.HasSuffix(stream, record.StreamCalls) && config.DeliverPolicy == jetstream.DeliverByStartSequencePolicy {
		if trim := s.trim.Swap(nil); trim != nil {
			(*trim)()
		}
	}
	return s.Streams.CreateConsumer(ctx, stream, config)
}

// deliver appends and delivers n calls.
func deliver(t *testing.T, j *Journal, r journal.Reader, n int) {
	t.Helper()
	for range n {
		appendOne(t, j, "web")
		deliverNext(t, r)
	}
}

// appendOne appends a call.
func appendOne(t *testing.T, j *Journal, source string) {
	t.Helper()
	require.NoError(t, j.Append(t.Context(), event.Batch{Source: source, ReceivedAt: time.Now(), Calls: journaltest.Calls(source, "m", 1)}))
}

// deliverNext delivers the next entry, which has one call.
func deliverNext(t *testing.T, r journal.Reader) {
	t.Helper()
	l, err := r.Next(within(t), journal.Want{})
	require.NoError(t, err)
	require.NoError(t, l.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
}

// runServer runs a server in memory until the test ends.
func runServer(t *testing.T) *fakenats.Server {
	server := fakenats.New(false)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Run(ctx, 100*time.Millisecond)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		server.Stop()
	})
	return server
}

// openWith opens a journal on a server. The journal uses the result of wrap instead of its own streams. openWith
// closes the journal when the test ends.
func openWith(t *testing.T, server nats.InProcessConnProvider, o Options, wrap func(store.Streams) store.Streams) *Journal {
	o.NATS = &NATS{Replicas: 1}
	o, err := o.withLimits()
	require.NoError(t, err)
	j, err := newJournal(o).opened(func(j *Journal) error {
		if err := j.connect("", append(o.NATS.ConnectOptions(), nats.InProcessServer(server), nats.ReconnectJitter(0, 0))...); err != nil {
			return err
		}
		j.JS = wrap(j.JS)
		return j.begin(t.Context())
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	return j
}

// TestOtherCollectorTrimsDuringARead lets another collector remove old calls after a read of CALLS has begun.
// The removed messages are not corrupt.
func TestOtherCollectorTrimsDuringARead(t *testing.T) {
	for name, c := range map[string]struct {
		keep time.Duration
		read func(*testing.T, *Journal) error
	}{
		"Verify": {1000 * time.Minute, func(t *testing.T, j *Journal) error {
			all, err := j.Verify(t.Context())
			for _, one := range all {
				assert.True(t, one.OK(), "%+v", one)
			}
			return err
		}},
		"Seen": {1000 * time.Minute, func(t *testing.T, j *Journal) error {
			_, err := seenCalls(t, j)
			return err
		}},
		"Trim": {time.Minute, func(t *testing.T, j *Journal) error { return j.trim(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			cleanTimers()
			defer cleanTimers()
			synctest.Test(t, func(t *testing.T) {
				server := runServer(t)
				streams := &trimmedStreams{}
				one := openWith(t, server, Options{Keep: c.keep}, func(s store.Streams) store.Streams { streams.Streams = s; return streams })
				if c.keep == time.Minute {
					one.trimmer.running.Lock()
					defer one.trimmer.running.Unlock()
				}
				two, err := OpenOn(t.Context(), Options{NATS: &NATS{Replicas: 1}, Keep: time.Minute}, server.Link(), 2)
				require.NoError(t, err)
				defer func() { require.NoError(t, two.Close()) }()
				two.trimmer.running.Lock()
				r, err := one.Attach(t.Context(), "crm", nil)
				require.NoError(t, err)
				deliver(t, one, r, 3)
				time.Sleep(2 * time.Minute)
				deliver(t, one, r, 1)

				trim := func() {
					two.trimmer.running.Unlock()
					assert.NoError(t, two.Trim(t.Context()))
				}
				streams.trim.Store(&trim)
				require.NoError(t, c.read(t, one))
				require.Nil(t, streams.trim.Load(), "the other collector has not removed the calls")
				calls, err := one.Measure(t.Context(), record.StreamCalls)
				require.NoError(t, err)
				assert.EqualValues(t, 1, calls.Msgs)
			})
		})
	}
}

// A changingBase simulates a base that another collector changes before each read, or that becomes unreadable.
type changingBase struct {
	store.Streams
	purged atomic.Uint64 // 0 until the base begins to change
	err    error         // if set, the error of all reads of the changing base except the first
}

func (s *changingBase) Last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	if !strings.HasSuffix(subject, ".s.base") || s.purged.Load() == 0 {
		return s.Streams.Last(ctx, stream, subject)
	}
	base := ledger.New()
	if base.Purged = s.purged.Add(1); base.Purged > 2 && s.err != nil {
		return nil, s.err
	}
	return &jetstream.RawStreamMsg{Data: s2.Encode(nil, base.Encode())}, nil
}

// TestVerifyReportsWhyItFails verifies a journal that has lost a message, which another collector may have
// trimmed.
func TestVerifyReportsWhyItFails(t *testing.T) {
	denied := errors.New("permission denied")
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"unknown":      {denied, []string{"of analytics-CALLS cannot be read", "permission denied"}},
		"always later": {nil, []string{"other collectors removed old calls during each of 10 recounts"}},
	} {
		t.Run(name, func(t *testing.T) {
			cleanTimers()
			defer cleanTimers()
			synctest.Test(t, func(t *testing.T) {
				server := runServer(t)
				streams := &changingBase{err: c.err}
				j := openWith(t, server, Options{}, func(s store.Streams) store.Streams { streams.Streams = s; return streams })
				r, err := j.Attach(t.Context(), "crm", nil)
				require.NoError(t, err)
				deliver(t, j, r, 2)
				require.Len(t, server.Lose("analytics.c.web"), 2)
				require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
				streams.purged.Store(1)
				_, err = j.Verify(t.Context())
				for _, want := range c.want {
					require.ErrorContains(t, err, want)
				}
			})
		})
	}
}

// TestLostCallsAreReportedOnce checks that a collector that cannot remove old calls logs only once how to fix this.
func TestLostCallsAreReportedOnce(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		server, log := runServer(t), &bytes.Buffer{}
		o := Options{NATS: &NATS{Replicas: 1}, Keep: time.Minute, Logger: slog.New(slog.NewTextHandler(log, nil))}
		j, err := OpenOn(t.Context(), o, server.Link(), 1)
		require.NoError(t, err)
		r, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		deliver(t, j, r, 2)
		require.Len(t, server.Lose("analytics.c.web"), 2)
		for range 5 {
			deliver(t, j, r, 1)
			time.Sleep(time.Minute)
		}
		require.NoError(t, j.Close())
		assert.Equal(t, 1, strings.Count(log.String(), "removing old calls failed"), log)
		assert.Contains(t, log.String(), "start once with --accept-loss")
	})
}

// TestCollectorContinuesAfterTrimmedCalls cuts off a collector for longer than calls are kept. Another
// collector removes calls that the first one has not read, and a destination.
func TestCollectorContinuesAfterTrimmedCalls(t *testing.T) {
	for name, later := range map[string]int{"more calls follow": 3, "no calls follow": 0} {
		t.Run(name, func(t *testing.T) {
			cleanTimers()
			defer cleanTimers()
			synctest.Test(t, func(t *testing.T) {
				server := runServer(t)
				options, link := Options{NATS: &NATS{Replicas: 1}, Keep: time.Minute}, server.Link()
				one, err := OpenOn(t.Context(), options, server.Link(), 1)
				require.NoError(t, err)
				defer func() { require.NoError(t, one.Close()) }()
				two, err := OpenOn(t.Context(), options, link, 2)
				require.NoError(t, err)
				defer func() { require.NoError(t, two.Close()) }()
				r, err := one.Attach(t.Context(), "crm", nil)
				require.NoError(t, err)
				_, err = two.Attach(t.Context(), "crm", nil)
				require.NoError(t, err)
				removed, err := two.Attach(t.Context(), "old", nil)
				require.NoError(t, err)
				deliver(t, one, r, 3)

				link.Cut(true)
				require.NoError(t, one.Detach(t.Context(), "old"))
				deliver(t, one, r, 3)
				time.Sleep(5 * time.Minute)
				deliver(t, one, r, later)
				calls, err := one.Measure(t.Context(), record.StreamCalls)
				require.NoError(t, err)
				require.EqualValues(t, later, calls.Msgs, "the other calls were removed")
				link.Cut(false)

				time.Sleep(10 * time.Second)
				require.NoError(t, two.Ready(t.Context()))
				requireSameLedgers(t, one, two)
				got, err := two.Ledger(t.Context())
				require.NoError(t, err)
				assert.EqualValues(t, 6+later, got[0].Delivered)
				_, err = removed.Next(t.Context(), journal.Want{})
				require.ErrorIs(t, err, journal.ErrClosed)
			})
		})
	}
}

// requireSameLedgers compares the ledgers of two journals, ignoring the times of pending calls.
func requireSameLedgers(t *testing.T, one, two *Journal) {
	t.Helper()
	want, wantUnattempted := one.ledger.Ledgers()
	got, gotUnattempted := two.ledger.Ledgers()
	require.Equal(t, want, got)
	require.Equal(t, wantUnattempted, gotUnattempted)
}

// TestCollectorContinuesAfterTrimmedOutcomes cuts off a collector. In the meantime, another collector marks expired
// calls as failed and removes them. The first collector has read these calls, but not their outcomes. After it
// reconnects, STATE does not respond for a while. If there are later calls, the first collector reads them again,
// and another call arrives during this.
func TestCollectorContinuesAfterTrimmedOutcomes(t *testing.T) {
	for name, later := range map[string]int{"all calls were removed": 0, "later calls are pending": 2} {
		t.Run(name, func(t *testing.T) {
			cleanTimers()
			defer cleanTimers()
			synctest.Test(t, func(t *testing.T) {
				server := runServer(t)
				options, link := Options{NATS: &NATS{Replicas: 1}, Keep: time.Minute}, server.Link()
				one, err := OpenOn(t.Context(), options, server.Link(), 1)
				require.NoError(t, err)
				defer func() { require.NoError(t, one.Close()) }()
				streams := &trimmedStreams{}
				two := openWith(t, link, options, func(s store.Streams) store.Streams { streams.Streams = s; return streams })
				ads := appendExpiring(t, one, later)
				require.NoError(t, two.ledger.Reached(t.Context(), expiring+uint64(later), 0))

				link.Cut(true)
				trimExpired(t, one, later)
				streams.from = expiring + 1
				more := func() {
					appendOne(t, one, "ios")
					time.Sleep(time.Second)
				}
				if later > 0 {
					streams.trim.Store(&more)
				}
				streams.down.Store(true)
				link.Cut(false)
				time.Sleep(35 * time.Second)
				streams.down.Store(false)

				time.Sleep(10 * time.Second)
				require.Nil(t, streams.trim.Load(), "the later calls are read again")
				require.NoError(t, two.Ready(t.Context()))
				requireSameLedgers(t, one, two)
				for range later {
					deliverNext(t, ads)
				}
				time.Sleep(time.Second)
				requireSameLedgers(t, one, two)
				got, _ := two.ledger.Ledgers()
				assert.EqualValues(t, later, got[0].Delivered)
				assert.EqualValues(t, 3, got[1].Failed)
			})
		})
	}
}

// TestStartAfterTrimmedOutcomes kills a collector after it has removed calls and outcomes, and before it has
// stored another checkpoint. Its last checkpoint contains more calls than the base, but fewer outcomes.
func TestStartAfterTrimmedOutcomes(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		server := runServer(t)
		options, link := Options{NATS: &NATS{Replicas: 1}, Keep: time.Minute}, server.Link()
		killed, err := OpenOn(t.Context(), options, link, 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, killed.Close()) }()
		const later = 10
		appendExpiring(t, killed, later)
		require.NoError(t, killed.StoreCheckpoint(t.Context()))
		trimExpired(t, killed, later)
		link.Cut(true)
		require.NoError(t, killed.Close())

		j, err := OpenOn(t.Context(), options, server.Link(), 2)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		requireSameLedgers(t, killed, j)
	})
}

// TestCallsOfAPausedDestinationAreTrimmed appends calls to a destination without a reader. The calls expire and
// are removed while new calls arrive.
func TestCallsOfAPausedDestinationAreTrimmed(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		server := runServer(t)
		j := openWith(t, server.Link(), Options{Keep: time.Minute}, func(s store.Streams) store.Streams { return s })
		_, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		for range 20 {
			appendOne(t, j, "web")
			time.Sleep(30 * time.Second)
		}
		require.NoError(t, j.Trim(t.Context()))
		calls, err := j.Measure(t.Context(), record.StreamCalls)
		require.NoError(t, err)
		assert.LessOrEqual(t, calls.Msgs, uint64(3))
		all, err := j.Verify(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.True(t, all[0].OK(), "%+v", all[0])
		assert.EqualValues(t, 20, all[0].Accepted)
		assert.GreaterOrEqual(t, all[0].Failed, int64(17))
	})
}

// expiring is the last message of CALLS that trimExpired removes.
const expiring = 5

// appendExpiring stores three calls for crm, which has no reader, and 50 seconds later other calls for ads.
func appendExpiring(t *testing.T, j *Journal, later int) (ads journal.Reader) {
	t.Helper()
	_, err := j.Attach(t.Context(), "crm", []string{"web"})
	require.NoError(t, err)
	ads, err = j.Attach(t.Context(), "ads", []string{"ios"})
	require.NoError(t, err)
	for range 3 {
		appendOne(t, j, "web")
	}
	time.Sleep(50 * time.Second)
	for range later {
		appendOne(t, j, "ios")
	}
	return ads
}

// trimExpired removes the calls for crm, and their outcomes.
func trimExpired(t *testing.T, j *Journal, later int) {
	t.Helper()
	time.Sleep(20 * time.Second)
	require.NoError(t, j.Trim(t.Context()))
	calls, err := j.Measure(t.Context(), record.StreamCalls)
	require.NoError(t, err)
	require.EqualValues(t, later, calls.Msgs, "the other calls were removed")
	outcomes, err := j.Measure(t.Context(), record.StreamOutcomes)
	require.NoError(t, err)
	require.Zero(t, outcomes.Msgs)
}

// TestLostCallsExpire checks that a pending call fails when it expires if the cluster has lost it.
func TestLostCallsExpire(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		server := runServer(t)
		j, err := OpenOn(t.Context(), Options{NATS: &NATS{Replicas: 1}, Keep: time.Minute}, server.Link(), 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		r, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
		l, err := r.Next(within(t), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, l.Finish(t.Context(), journal.Result{RetryAt: time.Now().Add(time.Hour), Outcomes: make([]tracking.Outcome, 1)}))
		require.Len(t, server.Lose("analytics.c.web"), 1)
		time.Sleep(3 * time.Minute)
		all, err := j.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, all[0].Failed)
		assert.Zero(t, all[0].Pending)
	})
}
