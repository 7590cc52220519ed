package analytics_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// marshaled is a value whose MarshalJSON calls a function.
type marshaled func()

func (f marshaled) MarshalJSON() ([]byte, error) {
	f()
	return []byte("1"), nil
}

// using contains the ways in which the caller's code uses the client in these tests.
var using = map[string]func(*analytics.Client) error{
	"Track": func(c *analytics.Client) error { return c.Track(&analytics.Track{Event: "within", UserId: "u"}) },
	"Flush": func(c *analytics.Client) error { return c.Flush(context.Background()) },
	"Stats": func(c *analytics.Client) error {
		if s := c.Stats(); s.Accepted != s.Delivered+s.Dropped.Total()+s.Pending {
			return errors.New("the sum does not hold")
		}
		return nil
	},
}

// A MarshalJSON method may use, and even close, the client that encodes its value.
func TestPropertyUsesItsClient(t *testing.T) {
	for way, use := range using {
		t.Run(way, func(t *testing.T) { testPropertyUsesItsClient(t, use, nil) })
	}
	t.Run("Close", func(t *testing.T) { testPropertyUsesItsClient(t, (*analytics.Client).Close, analytics.ErrClosed) })
}

func testPropertyUsesItsClient(t *testing.T, use func(*analytics.Client) error, want error) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, &collector{}, analytics.Config{})
		track(t, client, "before", 1)
		var inner error
		outer := client.Track(&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{
			"value": marshaled(func() { inner = use(client) }),
		}})
		require.NoError(t, inner)
		require.ErrorIs(t, outer, want)
		require.NoError(t, client.Close())
	})
}

// If a MarshalJSON method in DefaultContext uses the client, it gets an error, because the client is
// still reading its configuration. The first call of the client succeeds.
func TestDefaultContextUsesItsClient(t *testing.T) {
	for way, use := range using {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var client *analytics.Client
				var inner error
				before := analytics.DefaultContext
				defer func() { analytics.DefaultContext = before }()
				analytics.DefaultContext = map[string]interface{}{"value": marshaled(func() {
					if client != nil { // client is nil while NewWithConfig encodes the context
						inner = use(client)
					}
				})}
				srv := &collector{}
				client = newClient(t, srv, analytics.Config{})
				track(t, client, "first", 1)
				if way == "Track" {
					require.ErrorContains(t, inner, "perhaps a MarshalJSON of DefaultContext")
				} else {
					require.NoError(t, inner)
				}
				require.NoError(t, client.Close())
				require.EqualValues(t, 1, client.Stats().Delivered)
			})
		})
	}
}

func TestCallbackUsesItsClient(t *testing.T) {
	for way, use := range using {
		for _, spool := range []string{"", t.TempDir()} {
			t.Run(way+" "+spool, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var client *analytics.Client
					made, reported := make(chan struct{}), make(chan error, 10)
					client = newClient(t, &collector{}, analytics.Config{FlushAt: 1, MaxInFlight: 1, Spool: spool, Callback: func(r analytics.Result) {
						<-made
						if r.MessageId == "first" {
							reported <- use(client)
						} else {
							reported <- r.Err
						}
					}})
					start := time.Now()
					require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: "first"}}))
					track(t, client, "other", 3)
					close(made)
					require.NoError(t, <-reported)
					require.NoError(t, client.Close())
					require.Len(t, reported, int(client.Stats().Accepted)-1, "Close waits for all to be reported")
					for len(reported) > 0 {
						require.NoError(t, <-reported)
					}
					require.Less(t, time.Since(start), time.Second)
				})
			})
		}
	}
}

// If a callback or a log writer closes the client, Close waits for its own caller. Close times out
// and returns an error.
func TestCallbackThatClosesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		made, closed := make(chan struct{}), make(chan error, 1)
		client = newClient(t, &collector{}, analytics.Config{FlushAt: 1, CloseTimeout: time.Minute, Callback: func(analytics.Result) {
			<-made
			closed <- client.Close()
		}})
		track(t, client, "e", 1)
		close(made)
		start := time.Now()
		require.ErrorContains(t, <-closed, "it must not call Close or Shutdown")
		require.Equal(t, time.Minute+2*time.Second, time.Since(start))
		require.NoError(t, client.Close(), "it has returned")
		require.EqualValues(t, 1, client.Stats().Delivered)
	})
}

// A transport that closes its client also waits for itself. The batch is dropped.
func TestTransportThatClosesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		made, closed := make(chan struct{}), make(chan error, 1)
		client = newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			<-made
			closed <- client.Close()
			return answer{}.response(r), nil
		}), analytics.Config{FlushAt: 1, CloseTimeout: time.Minute})
		track(t, client, "e", 1)
		close(made)
		require.ErrorContains(t, <-closed, "1 call not delivered")
		require.EqualValues(t, 1, client.Stats().Dropped.Shutdown)
	})
}

// logging returns a logger that calls the function use for each entry, and a channel that receives
// the returned errors.
func logging(use func() error) (*log.Logger, chan error) {
	used := make(chan error, 100)
	return log.New(writerFunc(func(b []byte) (int, error) {
		used <- use()
		return len(b), nil
	}), "", 0), used
}

func TestLogUsesItsClient(t *testing.T) {
	testLogUsesItsClient(t, func(l *log.Logger) analytics.Config { return analytics.Config{FlushAt: 1, Logger: l} })
}

func TestSlogUsesItsClient(t *testing.T) {
	testLogUsesItsClient(t, func(l *log.Logger) analytics.Config {
		return analytics.Config{FlushAt: 1, Slog: slog.New(slog.NewTextHandler(l.Writer(), nil))}
	})
}

func testLogUsesItsClient(t *testing.T, config func(*log.Logger) analytics.Config) {
	for way, use := range using {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var client *analytics.Client
				logger, used := logging(func() error { return use(client) })
				refusing := first(answer{status: 403})
				client = newClient(t, refusing, config(logger))
				track(t, client, "refused", 1)
				err := <-used
				if way == "Flush" {
					require.ErrorContains(t, err, "1 call not delivered")
				} else {
					require.NoError(t, err)
				}
				_ = client.Close()
			})
		})
	}
}

// The goroutine that reads calls back does not write log entries. Otherwise a log writer that flushes
// the client would wait for this goroutine.
func TestLogWriterMayFlushAfterReadError(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		var segment string
		logger, used := logging(func() error {
			require.NoError(t, os.Remove(segment))
			require.NoError(t, os.Rename(segment+".away", segment))
			return client.Flush(context.Background())
		})
		var up atomic.Bool
		c := newSwitchedCollector(&up)
		client = newClient(t, c, analytics.Config{Spool: dir, MaxBytes: 128 << 10, Logger: logger})
		const calls = 600
		for range calls {
			require.NoError(t, client.Track(kilobyte("e")))
		}
		require.Len(t, segments(t, dir), 1)
		segment = segments(t, dir)[0]
		require.NoError(t, os.Rename(segment, segment+".away"))
		require.NoError(t, os.Symlink(segment, segment)) // a link to itself cannot be opened
		up.Store(true)
		require.NoError(t, client.Flush(context.Background()))
		require.NoError(t, <-used)
		require.EqualValues(t, calls, client.Stats().Delivered)
		require.NoError(t, client.Close())
	})
}

// errorUsing is a transport error. Its Error method calls the function use.
type errorUsing struct{ use func() }

func (e errorUsing) Error() string {
	e.use()
	return "trouble"
}

func TestTransportErrorUsesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		var reported error
		failure := &errorUsing{func() { _ = client.Stats() }}
		client = newClient(t, always(answer{err: failure}), analytics.Config{MaxAttempts: 1, Callback: func(r analytics.Result) { reported = r.Err }})
		track(t, client, "lost", 1)
		err := client.Close()
		require.ErrorContains(t, err, "trouble")
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, reported, failure)
	})
}

// writerFunc is the writer of a log.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
