package jetstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// fakeStreams returns the streams of a server in memory.
func fakeStreams(t *testing.T) store.Streams {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(fakenats.New(false)))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	streams, err := store.Connected(nc)
	require.NoError(t, err)
	return streams
}

// publishOutcomes stores an empty message of OUTCOMES.
func publishOutcomes(t *testing.T, j *Journal) {
	t.Helper()
	m := nats.NewMsg(j.Names.Subject("o"))
	m.Data = record.NewOutcomes(record.WriteID{})
	_, err := j.Publish(t.Context(), m)
	require.NoError(t, err)
}

// TestUnsettledTimeIsKept stores new outcomes for a long time before the work of the previous
// process is completed.
func TestUnsettledTimeIsKept(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := fakeStreams(t)
		j, err := openOn(t.Context(), Options{}, streams, streams)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		<-j.previous.settled
		since := func() time.Time {
			at, err := j.unsettledSince(t.Context())
			require.NoError(t, err)
			return at.UTC()
		}
		publishOutcomes(t, j)
		first := since()
		time.Sleep(2 * settleWithin)
		publishOutcomes(t, j)
		assert.Equal(t, first, since(), "the time is unchanged")
		require.NoError(t, j.settleLists(t.Context()))
		assert.Equal(t, first.Add(2*settleWithin), since(), "earlier outcomes are applied")
	})
}

// TestUnsettledTimeIsStoredAtStart checks that a journal stores the time at its start. Otherwise it
// could lose the time if it cannot complete the lists of failed calls at first.
func TestUnsettledTimeIsStoredAtStart(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := fakeStreams(t)
		first, err := openOn(t.Context(), Options{}, streams, streams)
		require.NoError(t, err)
		_, err = first.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		<-first.previous.settled
		publishOutcomes(t, first)
		wrote := time.Now()
		require.NoError(t, first.Close())

		second := newJournal(first.options)
		second.In, second.JS = streams, streams
		second.replays.running.Lock()
		require.NoError(t, second.begin(t.Context()))
		defer func() { require.NoError(t, second.Close()) }()
		defer second.replays.running.Unlock()
		time.Sleep(2 * settleWithin)
		publishOutcomes(t, second)
		since, err := second.unsettledSince(t.Context())
		require.NoError(t, err)
		assert.Equal(t, wrote.Add(-settleWithin).UTC(), since.UTC())
	})
}
