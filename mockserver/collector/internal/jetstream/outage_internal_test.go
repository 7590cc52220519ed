package jetstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// silent is streams that do not respond while isSilent is set.
type silent struct {
	store.Streams
	isSilent atomic.Bool
}

func (s *silent) CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (store.Consumer, error) {
	if s.isSilent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Streams.CreateConsumer(ctx, stream, config)
}

// inBubble runs f in a synctest bubble with a journal on a server in memory.
func inBubble(t *testing.T, f func(t *testing.T, j *Journal, streams *silent)) {
	t.Helper()
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := &silent{Streams: fakeStreams(t)}
		j, err := openOn(t.Context(), Options{Keep: time.Minute}, streams, streams)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		<-j.previous.tried
		f(t, j, streams)
	})
}

var errDisk = errors.New("input/output error")

func TestVerifyIsRetriedAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, j *Journal, _ *silent) {
		_, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		j.Status.Down(errDisk)
		time.AfterFunc(4*time.Second, j.Status.Up)
		all, err := j.Verify(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.True(t, all[0].OK(), "%+v", all)
	})
}

func TestVerifyEndsInALongOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, j *Journal, _ *silent) {
		j.Status.Down(errDisk)
		began := time.Now()
		_, err := j.Verify(t.Context())
		require.ErrorIs(t, err, errDisk)
		require.ErrorIs(t, err, journal.ErrUnwritable)
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

// TestVerifyDoesNotWaitForTrim makes the store permanently unwritable during a trim.
func TestVerifyDoesNotWaitForTrim(t *testing.T) {
	inBubble(t, func(t *testing.T, j *Journal, streams *silent) {
		_, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{{Source: "web", ID: "1", Body: []byte("{}")}}}))
		streams.isSilent.Store(true)
		time.Sleep(3 * time.Minute)
		synctest.Wait() // wait until the trim waits for a response
		j.Status.Down(errDisk)
		began := time.Now()
		_, err = j.Verify(t.Context())
		require.ErrorIs(t, err, errDisk)
		assert.Equal(t, 5*time.Second, time.Since(began))
		streams.isSilent.Store(false)
		j.Status.Up()
		all, err := j.Verify(t.Context())
		require.NoError(t, err)
		assert.True(t, all[0].OK(), "%+v", all)
	})
}

// TestFailedCallsAreListedDuringAnOutage starts a journal on a store that is not writable. The
// journal cannot complete the work of the previous process.
func TestFailedCallsAreListedDuringAnOutage(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := &mute{Streams: fakeStreams(t)}
		j, err := openOn(t.Context(), Options{}, streams, streams)
		require.NoError(t, err)
		r, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		call := tracking.Call{Source: "web", ID: "1", Body: []byte(`{"messageId":"1"}`)}
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{call}}))
		l, err := r.Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, l.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateFailed}}}))
		require.NoError(t, j.Close())

		streams.isCutOff.Store(true)
		j, err = openOn(t.Context(), Options{}, streams, streams)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		j.Status.Down(errDisk)
		time.Sleep(10 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began, listed := time.Now(), 0
		require.NoError(t, j.Failed(ctx, "crm", func(journal.FailedCall) bool { listed++; return true }))
		assert.Equal(t, 1, listed)
		require.ErrorIs(t, j.Replay(ctx, "crm", []tracking.Call{call}, nil, tracking.StateFailed), journal.ErrUnwritable)
		assert.Zero(t, time.Since(began))

		streams.isCutOff.Store(false)
		j.Status.Up()
		began = time.Now()
		<-j.previous.settled
		assert.Less(t, time.Since(began), settlePause, "delay of the remaining work after the outage")
	})
}

// TestBrokenLedgerIsNotQueriedInALoop makes the ledger unable to read further messages while a reader waits
// for a message that the ledger has not read.
func TestBrokenLedgerIsNotQueriedInALoop(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := &mute{Streams: fakeStreams(t)}
		j, err := openOn(t.Context(), Options{}, streams, streams)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		<-j.previous.tried
		r, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		j.Status.Down(errDisk)
		j.ledger.Fail(errDisk)
		m := callsMessage(j.Names.Subject(record.KindCalls, "web"), journaltest.Calls("web", "m", 1), nil)
		record.SetTime(m.Header, time.Now())
		_, err = streams.Streams.Publish(t.Context(), m)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = r.Next(ctx, journal.Want{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, streams.requests.Load(), int64(200))
	})
}
