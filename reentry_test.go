package analytics_test

import (
	"context"
	"errors"
	"log"
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

// using is how the caller's code uses the client that calls it.
var using = map[string]func(*analytics.Client) error{
	"Track": func(c *analytics.Client) error { return c.Track(&analytics.Track{Event: "within", UserId: "u"}) },
	"Flush": func(c *analytics.Client) error { return c.Flush(context.Background()) },
	"Stats": func(c *analytics.Client) error {
		if s := c.Stats(); s.Accepted != s.Delivered+s.Dropped.Total()+s.Pending {
			return errors.New("the sum does not hold")
		}
		return nil
	},
	"Close":    (*analytics.Client).Close,
	"Shutdown": func(c *analytics.Client) error { return c.Shutdown(context.Background()) },
}

func TestPropertyUsesItsClient(t *testing.T) {
	for way, use := range using {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newClient(t, &collector{}, analytics.Config{})
				track(t, client, "before", 1)
				var inner error
				outer := client.Track(&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{
					"value": marshaled(func() { inner = use(client) }),
				}})
				require.NoError(t, inner)
				if way == "Close" || way == "Shutdown" {
					require.ErrorIs(t, outer, analytics.ErrClosed)
				} else {
					require.NoError(t, outer)
				}
				require.NoError(t, client.Close())
			})
		})
	}
}

// The context is encoded while the first call starts the client.
func TestContextUsesItsClient(t *testing.T) {
	before := analytics.DefaultContext
	t.Cleanup(func() { analytics.DefaultContext = before })
	for way, use := range using {
		t.Run(way, func(t *testing.T) {
			c := &collector{}
			client := analytics.New("key")
			client.Client.Transport = c
			client.Spool = t.TempDir() // so that Flush starts the client
			var inner error
			analytics.DefaultContext = map[string]interface{}{"value": marshaled(func() { inner = use(client) })}
			require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}))
			if way == "Stats" {
				require.NoError(t, inner)
			} else {
				require.ErrorContains(t, inner, "uses the client that is encoding it")
			}
			require.NoError(t, client.Close())
			require.Equal(t, []int{1}, c.sizes())
			require.Equal(t, float64(1), c.all()[0].body.Context["value"])
		})
	}
}

// A callback that closes its client gets the other results later.
func TestCallbackUsesItsClient(t *testing.T) {
	for way, use := range using {
		for _, spool := range []string{"", t.TempDir()} {
			t.Run(way+" "+spool, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var client *analytics.Client
					made, told := make(chan struct{}), make(chan error, 10)
					client = newClient(t, &collector{}, analytics.Config{FlushAt: 1, MaxInFlight: 1, Spool: spool, Callback: func(r analytics.Result) {
						<-made
						if r.MessageId == "first" {
							told <- use(client)
						} else {
							told <- r.Err
						}
					}})
					start := time.Now()
					require.NoError(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: "first"}}))
					track(t, client, "other", 3)
					close(made)
					require.NoError(t, <-told)
					require.NoError(t, client.Close())
					require.Len(t, told, int(client.Stats().Accepted)-1, "Close waits for all to be told")
					for len(told) > 0 {
						require.NoError(t, <-told)
					}
					require.Less(t, time.Since(start), time.Second)
				})
			})
		}
	}
}

// A call of a callback does not wait for the memory of results that the callback has
// not taken.
func TestCallbackDoesNotWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		release, full := make(chan struct{}), make(chan error, 1)
		client = newClient(t, &collector{}, analytics.Config{
			WhenFull: analytics.Block, MaxBytes: 128 << 10, FlushAt: 1,
			Callback: func(analytics.Result) {
				<-release
				for len(full) == 0 {
					if err := client.Track(kilobyte("within")); err != nil {
						full <- err
					}
				}
			},
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 1000 {
				_ = client.Track(kilobyte("e"))
			}
		}()
		synctest.Wait() // the calls have no room any more
		close(release)
		require.ErrorIs(t, <-full, analytics.ErrQueueFull)
		<-done
		require.NoError(t, client.Close())
		requireSum(t, client.Stats())
	})
}

// logging is a log whose writer uses the client.
func logging(use func() error) (*log.Logger, chan error) {
	used := make(chan error, 100)
	return log.New(writerFunc(func(b []byte) (int, error) {
		used <- use()
		return len(b), nil
	}), "", 0), used
}

func TestLogUsesItsClient(t *testing.T) {
	for way, use := range using {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var client *analytics.Client
				logger, used := logging(func() error { return use(client) })
				refusing := &collector{decide: func(i int, _ post) answer {
					if i == 0 {
						return answer{status: 403}
					}
					return answer{}
				}}
				client = newClient(t, refusing, analytics.Config{FlushAt: 1, Logger: logger})
				track(t, client, "refused", 1)
				err := <-used
				if way == "Flush" || way == "Close" || way == "Shutdown" {
					require.ErrorContains(t, err, "1 call not delivered")
				} else {
					require.NoError(t, err)
				}
				_ = client.Close()
			})
		})
	}
}

// Lines about the spool are not written by the goroutine that reads calls back, for
// which a flush in the log's writer would wait.
func TestLogFlushesWhatTheSpoolCouldNotRead(t *testing.T) {
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
		require.NoError(t, os.Symlink(segment, segment)) // which cannot be opened
		up.Store(true)
		require.NoError(t, client.Flush(context.Background()))
		require.NoError(t, <-used)
		require.EqualValues(t, calls, client.Stats().Delivered)
		require.NoError(t, client.Close())
	})
}

// errorUsing is an error of a transport whose Error calls a function.
type errorUsing struct{ use func() }

func (e errorUsing) Error() string {
	e.use()
	return "trouble"
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestTransportErrorUsesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		var told error
		failure := &errorUsing{func() { _ = client.Stats() }}
		client = newClient(t, failing{failure}, analytics.Config{MaxAttempts: 1, Callback: func(r analytics.Result) { told = r.Err }})
		track(t, client, "lost", 1)
		err := client.Close()
		require.ErrorContains(t, err, "trouble")
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, told, failure)
	})
}
