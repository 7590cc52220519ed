package pipeline

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// slowDisk is the mutex of a spool. write runs each time the spool unlocks the mutex for I/O.
type slowDisk struct {
	spoolMutex
	write func()
}

func (d slowDisk) Unlock() {
	d.spoolMutex.Unlock()
	d.write()
}

// After Close, the loop sleeps while a call is still being written to a slow disk.
func TestLoopSleepsWhileTheSpoolIsWritten(t *testing.T) {
	p := newTestPipeline(t, Config{})
	writing, release := make(chan struct{}), make(chan struct{})
	disk, _, err := spool.Open(t.TempDir(), spool.Options{
		MaxBytes: 1 << 20,
		Mutex:    slowDisk{spoolMutex{p}, sync.OnceFunc(func() { close(writing); <-release })},
	})
	require.NoError(t, err)
	written := make(chan error, 1)
	go func() {
		p.lock()
		defer p.unlock()
		written <- disk.Append(&spool.Record{Buf: make([]byte, spool.HeadLen)}, time.Now())
	}()
	<-writing
	p.spool = &spoolWorker{Pipeline: p, disk: disk}
	p.phase = closing
	now := time.Now()
	l := &loop{Pipeline: p, abandonAt: now.Add(-time.Second)}
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

// The buffer of an abandoned batch is not reused, because the transport may still read it.
func TestAbandonedBatchIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startTestPipeline(t, Config{}, deaf{})
		require.NoError(t, accept(p, "{}"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left, err := p.Shutdown(ctx)
		require.NoError(t, err)
		require.NotNil(t, left)
		require.Empty(t, p.buffers.free)
		time.Sleep(time.Hour) // the transport's goroutine returns after an hour
	})
}

// Retry-After delays other senders immediately, even if the loop is busy, for example with
// compression.
func TestRetryAfterHoldsOtherSendersAtOnce(t *testing.T) {
	p := newTestPipeline(t, Config{})
	for range 2 * p.FlushAt {
		require.True(t, p.place(CallID{}, []byte("{}"), 0, time.Now()))
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

// The loop does not log an outcome again that proceed has logged: another attempt may have failed in the
// meantime.
func TestHandledOutcomeDoesNotEndOutage(t *testing.T) {
	l := &loop{Pipeline: newTestPipeline(t, Config{})}
	delivered := outcome{job: &job{}, status: http.StatusOK, handled: true}
	l.handle(outcome{job: &job{}, status: http.StatusServiceUnavailable, err: http.ErrServerClosed}, time.Now())
	require.True(t, l.outage.reported)
	l.handle(delivered, time.Now())
	require.True(t, l.outage.reported)
}

// The pipeline unlocks mu while it compresses the halves of a batch, which takes milliseconds.
func TestSplitUnlocks(t *testing.T) {
	l := &loop{Pipeline: newTestPipeline(t, Config{Gzip: true})}
	for range l.FlushAt {
		require.True(t, l.place(CallID{}, []byte("{}"), 0, time.Now()))
	}
	l.compressOne()
	b := l.outbox.ready.pop()
	require.NotNil(t, b.zip)
	<-l.wake // the accepted batch has woken the loop
	l.mu.Lock()
	l.work = true // makes unlock wake the loop
	first, second, ok := l.split(b)
	require.True(t, ok)
	require.Len(t, l.wake, 1)
	require.Equal(t, first.charge+second.charge, l.budget.used)
	l.mu.Unlock()
}
