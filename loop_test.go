package analytics

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// newTestPipeline makes a pipeline whose goroutine does not run.
func newTestPipeline(t *testing.T, config Config) *pipeline {
	t.Helper()
	client, err := NewWithConfig("key", config)
	require.NoError(t, err)
	settings, err := client.settings()
	require.NoError(t, err)
	return newPipeline(settings)
}

// While the client is closed and the disk is slow, the loop sleeps.
func TestLoopSleepsWhileTheSpoolIsWritten(t *testing.T) {
	p := newTestPipeline(t, Config{})
	writing, release := make(chan struct{}), make(chan struct{})
	disk, _, err := spool.Open(t.TempDir(), spool.Options{
		MaxBytes: 1 << 20, Appended: func([]*spool.Record, time.Time) { close(writing); <-release },
	})
	require.NoError(t, err)
	written := make(chan error, 1)
	go func() { written <- disk.Append(&spool.Record{Buf: make([]byte, spool.HeadLen)}, time.Now()) }()
	<-writing
	p.spool = &spoolWorker{pipeline: p, disk: disk}
	p.phase = closing
	now := time.Now()
	l := &loop{pipeline: p, abandonAt: now.Add(-time.Second)}
	next, finished := l.step(now)
	require.False(t, finished)
	require.Equal(t, now.Add(idleWait), next)
	close(release)
	require.NoError(t, <-written)
	disk.Close()
}

type deaf struct{}

func (deaf) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Hour)
	return nil, http.ErrServerClosed
}

// A transport that is abandoned may still read its batch.
func TestAbandonedBatchIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewWithConfig("key", Config{HTTPClient: &http.Client{Transport: deaf{}}, CloseTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, client.Track(&Track{Event: "e", UserId: "u"}))
		require.Error(t, client.Close())
		require.Empty(t, client.running.Load().buffers.free)
		time.Sleep(time.Hour) // the transport's goroutine ends
	})
}

// Retry-After holds other senders even while the loop is busy, for example with
// compression.
func TestRetryAfterHoldsOtherSendersAtOnce(t *testing.T) {
	p := newTestPipeline(t, Config{})
	for range 2 * p.FlushAt {
		require.True(t, p.place(callID{}, []byte("{}"), 0, time.Now()))
	}
	j := &job{todo: []*batch{p.outbox.ready.pop()}}
	next := p.proceed(&outcome{job: &job{}, status: 429, retryAfter: time.Minute, err: http.ErrAbortHandler})
	require.Nil(t, next.body)
	o := outcome{job: j, status: 200}
	next = p.proceed(&o)
	require.Nil(t, next.body)
	require.True(t, o.handled)
	require.False(t, len(p.outbox.ready.batches) == 0)
}

// mu is unlocked while the halves of a batch are compressed, which takes long.
func TestSplitUnlocks(t *testing.T) {
	l := &loop{pipeline: newTestPipeline(t, Config{Gzip: true})}
	for range l.FlushAt {
		require.True(t, l.place(callID{}, []byte("{}"), 0, time.Now()))
	}
	l.compressOne()
	b := l.outbox.ready.pop()
	require.NotNil(t, b.zip)
	<-l.wake // of the batch
	l.mu.Lock()
	l.work = true // which the loop is told of as the lock is given up
	first, second := l.split(b)
	require.Len(t, l.wake, 1)
	require.Equal(t, first.charge+second.charge, l.budget.used)
	l.mu.Unlock()
}

// The clock of calls is time.Now, whatever it was used for before.
func TestClockOfCalls(t *testing.T) {
	var c clock
	before := time.Now()
	milli := c.milli()
	require.GreaterOrEqual(t, milli, before.UnixMilli())
	require.False(t, c.now().Before(before))
	require.False(t, c.now().After(time.Now()))
	for range 2 { // another time in each
		synctest.Test(t, func(t *testing.T) {
			for _, pause := range []time.Duration{0, clockAge / 2, clockAge - 1, 1, clockAge, time.Hour} {
				time.Sleep(pause)
				require.Equal(t, time.Now().UnixMilli(), c.milli())
				require.Equal(t, time.Now(), c.now())
			}
		})
	}
}
