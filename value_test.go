package analytics_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

type requestID struct{}

// withRequest returns a context that contains the ID of a request to the program.
func withRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestID{}, id)
}

// requestOf is a function for Config.Value. It returns the request ID of a context.
func requestOf(ctx context.Context) interface{} { return ctx.Value(requestID{}) }

// valued is a transport that records the values and events of each request.
type valued struct {
	collector
	seen []string // guarded by mu of the collector
}

func (v *valued) RoundTrip(r *http.Request) (*http.Response, error) {
	values := analytics.RequestValues(r.Context())
	res, err := v.collector.RoundTrip(r)
	v.mu.Lock()
	defer v.mu.Unlock()
	var events []string
	for _, call := range v.posts[len(v.posts)-1].body.Batch {
		events = append(events, call["event"].(string))
	}
	v.seen = append(v.seen, fmt.Sprint(events, values))
	return res, err
}

// The result of a call contains the value of the call. The transport receives the value with each
// request that contains the call, even if the request is part of a refused batch.
func TestValue(t *testing.T) {
	refuseB := when(answer{status: 400}, func(_ int, p post) bool { return strings.Contains(string(p.raw), `"event":"b"`) })
	for _, tt := range []struct {
		name   string
		decide func(int, post) answer
		gzip   bool
		seen   []string
	}{
		{"delivered", nil, false, []string{"[a b c d] [1 2 <nil> 4]"}},
		{"retried", first(answer{status: 503}).decide, false, []string{"[a b c d] [1 2 <nil> 4]", "[a b c d] [1 2 <nil> 4]"}},
		{"refused", refuseB, false, []string{"[a b c d] [1 2 <nil> 4]", "[a b] [1 2]", "[c d] [<nil> 4]", "[a] [1]", "[b] [2]"}},
		{"refused, compressed", refuseB, true, []string{"[a b c d] [1 2 <nil> 4]", "[a b] [1 2]", "[c d] [<nil> 4]", "[a] [1]", "[b] [2]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &valued{collector: collector{decide: tt.decide}}
				var got []string
				client := newClient(t, v, analytics.Config{Gzip: tt.gzip, Value: requestOf, Callback: func(r analytics.Result) {
					got = append(got, fmt.Sprintf("%s %v %t", r.Type, r.Value, r.Err != nil))
				}})
				ctx := t.Context()
				require.NoError(t, client.Enqueue(withRequest(ctx, "1"), &analytics.Track{Event: "a", UserId: "u"}))
				require.NoError(t, client.Enqueue(withRequest(ctx, "2"), &analytics.Track{Event: "b", UserId: "u"}))
				require.NoError(t, client.Track(&analytics.Track{Event: "c", UserId: "u"}))
				require.NoError(t, client.Enqueue(withRequest(ctx, "4"), &analytics.Track{Event: "d", UserId: "u"}))
				err := client.Close()
				require.Equal(t, strings.HasPrefix(tt.name, "refused"), err != nil)
				require.Equal(t, tt.seen, v.seen)
				require.ElementsMatch(t, []string{"track 1 false", fmt.Sprintf("track 2 %t", err != nil), "track <nil> false", "track 4 false"}, got)
			})
		})
	}
}

// Without a callback, the transport receives the values. They count towards the memory budget.
func TestValueWithoutCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &valued{}
		client := newClient(t, v, analytics.Config{FlushAt: 3, Value: requestOf})
		plain := newClient(t, &collector{}, analytics.Config{FlushAt: 3})
		ctx := withRequest(t.Context(), "1")
		for range 2 {
			require.NoError(t, client.Enqueue(ctx, &analytics.Track{Event: "a", UserId: "u"}))
			require.NoError(t, plain.Enqueue(ctx, &analytics.Track{Event: "a", UserId: "u"}))
		}
		require.Equal(t, plain.Stats().Bytes+2*48, client.Stats().Bytes)
		require.NoError(t, client.Close())
		require.NoError(t, plain.Close())
		require.Equal(t, []string{"[a a] [1 1]"}, v.seen)
		require.Zero(t, client.Stats().Bytes)
	})
}

func TestRequestValuesOfNoClient(t *testing.T) {
	require.Nil(t, analytics.RequestValues(t.Context()))
	var got atomic.Int32
	client := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		got.Add(int32(len(analytics.RequestValues(r.Context()))))
		return answer{}.response(r), nil
	}), analytics.Config{})
	require.NoError(t, client.Enqueue(withRequest(t.Context(), "1"), &analytics.Track{Event: "a", UserId: "u"}))
	require.NoError(t, client.Close())
	require.Zero(t, got.Load())
}

// Config.Value is called only for accepted calls.
func TestValueOfRejectedCalls(t *testing.T) {
	var asked int
	client := newClient(t, &collector{}, analytics.Config{Value: func(context.Context) interface{} { asked++; return nil }})
	require.Error(t, client.Track(&analytics.Track{UserId: "u"}))
	require.Error(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"f": func() {}}}))
	require.Error(t, client.Track(&analytics.Track{Event: strings.Repeat("e", 40_000), UserId: "u"}))
	require.Zero(t, asked)
	require.NoError(t, client.Close())
}

// The caller receives a panic in Config.Value, and the client continues to work.
func TestValuePanics(t *testing.T) {
	client := newClient(t, &collector{}, analytics.Config{Value: func(ctx context.Context) interface{} { return ctx.Value(requestID{}).(string) }})
	require.Panics(t, func() { _ = client.Track(&analytics.Track{Event: "e", UserId: "u"}) })
	require.NoError(t, client.Enqueue(withRequest(t.Context(), "1"), &analytics.Track{Event: "e", UserId: "u"}))
	require.NoError(t, client.Close())
	require.EqualValues(t, 1, client.Stats().Delivered)
}

// A call in a spool has its value only in the process that made the call.
func TestValueWithSpool(t *testing.T) {
	dir := t.TempDir()
	tried, cancel := context.WithCancel(t.Context())
	down := &valued{collector: collector{decide: func(int, post) answer { return answer{status: 503} }}}
	client := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		defer cancel()
		return down.RoundTrip(r)
	}), analytics.Config{Spool: dir, Value: requestOf, CloseTimeout: time.Millisecond})
	require.NoError(t, client.Enqueue(withRequest(t.Context(), "1"), &analytics.Track{Event: "a", UserId: "u"}))
	require.Error(t, client.Flush(tried))
	require.Error(t, client.Close())
	require.Contains(t, down.seen, "[a] [1]")

	up := &valued{}
	var got []analytics.Result
	config := analytics.Config{Spool: dir, Value: requestOf, Callback: func(r analytics.Result) { got = append(got, r) }}
	client = newClient(t, up, config)
	require.NoError(t, client.Flush(t.Context()))
	require.NoError(t, client.Close())
	client = newClient(t, up, config) // a new client, because the previous one may have read calls back after Flush
	require.NoError(t, client.Enqueue(withRequest(t.Context(), "2"), &analytics.Track{Event: "b", UserId: "u", Message: analytics.Message{MessageId: "b"}}))
	require.NoError(t, client.Close())
	require.Equal(t, []string{"[a] [<nil>]", "[b] [2]"}, up.seen)
	require.Len(t, got, 2)
	require.Nil(t, got[0].Value)
	require.Equal(t, analytics.Result{MessageId: "b", Type: "track", Value: "2"}, got[1])
}

// Each request contains the values of its calls, in spite of refusals and concurrent calls.
func TestValueConcurrentSafe(t *testing.T) {
	const callers, calls = 8, 200
	var mixed atomic.Int32
	rt := roundTripper(func(r *http.Request) (*http.Response, error) {
		p := readPost(r)
		values := analytics.RequestValues(r.Context())
		for i, call := range p.body.Batch {
			if len(values) != len(p.body.Batch) || values[i] != call["event"] {
				mixed.Add(1)
			}
		}
		if strings.Contains(string(p.raw), `-099"`) {
			return answer{status: 400}.response(r), nil
		}
		return answer{}.response(r), nil
	})
	var reported sync.Map
	client := newClient(t, rt, analytics.Config{FlushAt: 7, Value: requestOf, Callback: func(r analytics.Result) { reported.Store(r.Value, r.Err) }})
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range calls {
				id := name(fmt.Sprint(c), i)
				require.NoError(t, client.Enqueue(withRequest(t.Context(), id), &analytics.Track{Event: id, UserId: "u"}))
			}
		})
	}
	group.Wait()
	require.Error(t, client.Close())
	require.Zero(t, mixed.Load())
	for c := range callers {
		for i := range calls {
			err, ok := reported.Load(name(fmt.Sprint(c), i))
			require.True(t, ok)
			require.Equal(t, i == 99, err != nil)
		}
	}
}

// WrapTransport wraps the client's transport. Connections of that transport are reused, and closed
// with the client.
func TestWrapTransport(t *testing.T) {
	states := make(chan http.ConnState, 1000)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Tenant") != "t-1" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	server.Start()
	defer server.Close()
	var wrapped atomic.Int32
	client, err := analytics.NewWithConfig("write-key-0123456789", analytics.Config{
		Endpoint: server.URL, FlushAt: 1, MaxInFlight: 1,
		WrapTransport: func(base http.RoundTripper) http.RoundTripper {
			wrapped.Add(1)
			require.IsType(t, &http.Transport{}, base)
			require.NotSame(t, http.DefaultTransport, base)
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				r.Header.Set("X-Tenant", "t-1")
				return base.RoundTrip(r)
			})
		},
	})
	require.NoError(t, err)
	track(t, client, "e", 20)
	require.NoError(t, client.Close())
	require.EqualValues(t, 20, client.Stats().Delivered)
	require.EqualValues(t, 1, wrapped.Load())
	count := map[http.ConnState]int{}
	for count[http.StateClosed] == 0 { // wait until the client closes the connection
		count[<-states]++
	}
	require.Equal(t, 1, count[http.StateNew])
}

// WrapTransport can also wrap the caller's transport.
func TestWrapTransportOfTheCaller(t *testing.T) {
	c := &collector{}
	client := newClient(t, c, analytics.Config{WrapTransport: func(base http.RoundTripper) http.RoundTripper {
		require.Same(t, c, base)
		return base
	}})
	track(t, client, "e", 1)
	require.NoError(t, client.Close())
	require.Len(t, c.all(), 1)
}

func TestWrapTransportMustReturnOne(t *testing.T) {
	client := newClient(t, &collector{}, analytics.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return nil }})
	require.ErrorContains(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), "Config.WrapTransport returned nil")
	require.NoError(t, client.Close())
}

// If WrapTransport panics, the call returns the panic as an error. The next call tries again.
func TestWrapTransportThatPanics(t *testing.T) {
	panics := true
	client := newClient(t, &collector{}, analytics.Config{WrapTransport: func(base http.RoundTripper) http.RoundTripper {
		if panics {
			panic("no certificate " + strings.Repeat("x", 1000))
		}
		return base
	}})
	err := client.Track(&analytics.Track{Event: "e", UserId: "u"})
	require.ErrorContains(t, err, "Config.WrapTransport panicked: no certificate")
	require.Less(t, len(err.Error()), 300)
	panics = false
	track(t, client, "e", 1)
	require.NoError(t, client.Close())
}

// If WrapTransport calls FailNow of a test, only the goroutine that made the call exits.
func TestWrapTransportThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exits := true
		client := newClient(t, &collector{}, analytics.Config{WrapTransport: func(base http.RoundTripper) http.RoundTripper {
			if exits {
				runtime.Goexit()
			}
			return base
		}})
		go func() { _ = client.Track(&analytics.Track{Event: "e", UserId: "u"}) }()
		synctest.Wait()
		exits = false
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
	})
}
