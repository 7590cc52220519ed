package analytics

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// While the client is closed and the disk is slow, there is nothing to do.
func TestLoopSleepsWhileTheSpoolIsWritten(t *testing.T) {
	c := New("key")
	s, err := c.settings()
	require.NoError(t, err)
	p := newPipeline(s)
	p.spool = &spool{writers: 1}
	p.closing = &flush{}
	now := time.Now()
	l := &loop{pipeline: p, giveUp: now.Add(-time.Second)}
	next, finished := l.step(now)
	require.False(t, finished)
	require.Equal(t, now.Add(asleep), next)
}

type deaf struct{}

func (deaf) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Hour)
	return nil, http.ErrServerClosed
}

// A transport that is left behind may still read its batch.
func TestBatchLeftBehindIsNotRecycled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewWithConfig("key", Config{HTTPClient: &http.Client{Transport: deaf{}}, CloseTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, client.Track(&Track{Event: "e", UserId: "u"}))
		require.Error(t, client.Close())
		require.Empty(t, client.running.Load().spare)
		time.Sleep(time.Hour) // the transport's goroutine ends
	})
}
