package mockserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// webhooks is an http.RoundTripper with a configurable handler for each path.
type webhooks struct {
	mu       sync.Mutex
	answers  map[string]http.HandlerFunc // by path; defaults to 200
	requests map[string][]time.Time      // by path
}

func (h *webhooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests[r.URL.Path] = append(h.requests[r.URL.Path], time.Now())
	answer := h.answers[r.URL.Path]
	h.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

// times returns the times of requests to a path, relative to since.
func (h *webhooks) times(path string, since time.Time) (after []time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.requests[path] {
		after = append(after, at.Sub(since))
	}
	return after
}

func (h *webhooks) answer(path string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// slow responds after four seconds.
func slow(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(4 * time.Second):
	}
}

// peak measures the maximum number of concurrent requests, except requests to one path.
// It counts in the client, because a server notices the end of a request later.
type peak struct {
	but       string
	mu        sync.Mutex // guards the fields below
	now, most int
}

func (p *peak) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != p.but {
			p.add(1)
			defer p.add(-1)
		}
		return next.RoundTrip(r)
	})
}

// roundTrip is a function that implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (p *peak) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += n
	p.most = max(p.most, p.now)
}

func (p *peak) max() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// inProcess starts a server that uses no network, with in-process webhooks.
func inProcess(t *testing.T, config engine.Config) (*mockserver.Server, *webhooks) {
	t.Helper()
	h := &webhooks{answers: map[string]http.HandlerFunc{}, requests: map[string][]time.Time{}}
	config.Sender.Transport = mockserver.NewTransport(h)
	return mockserver.RunEngineInProcess(t, config), h
}

// send posts a body to an in-process server.
func send(t *testing.T, srv *mockserver.Server, body string) {
	t.Helper()
	sendAs(t, srv, "key", body)
}

func sendAs(t *testing.T, srv *mockserver.Server, writeKey, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/batch", strings.NewReader(body))
	require.NoError(t, err)
	req.SetBasicAuth(writeKey, "")
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// account returns the ledger of the only destination, with a zero time.
func account(t *testing.T, srv *mockserver.Server) tracking.Ledger {
	t.Helper()
	all, err := srv.Ledger(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, all[0].Holds(), "%+v", all[0])
	all[0].OldestPending = time.Time{}
	return all[0]
}

func TestOneOfFiveWebhooksAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{
			hook("d", "http://h/1", "http://h/2", "http://h/3", "http://h/4", "http://h/5")}})
		for i := range 4 {
			h.answer(fmt.Sprintf("/%d", i+1), hang)
		}
		h.answer("/5", func(http.ResponseWriter, *http.Request) { time.Sleep(300 * time.Millisecond) })
		start := time.Now()
		send(t, srv, track("m", 1))
		record := srv.Expect(t, mockserver.DeliveredTo("d"))
		assert.Equal(t, 300*time.Millisecond, time.Since(start), "done when the fifth answers")
		assert.Len(t, record.Attempts, 1, "the others are still under way")
		assert.Empty(t, srv.Calls(mockserver.Attempted("d", 2)))

		record = srv.Expect(t, mockserver.Attempted("d", 5))
		require.Len(t, record.Attempts, 5, "each ended by itself")
		for _, a := range record.Attempts[1:] {
			assert.Equal(t, webhook.ReasonTimeout, a.Reason)
			assert.Equal(t, webhook.Timeout, a.Duration)
		}
		time.Sleep(5 * time.Hour)
		for i := range 5 {
			assert.Len(t, h.times(fmt.Sprintf("/%d", i+1), start), 1, "none is asked again")
		}
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 1, Delivered: 1}, account(t, srv))
	})
}

// Webhooks that fail temporarily are retried for four hours. A webhook that refused the
// call permanently is not retried. Equal random numbers yield equal attempt times.
func TestAllWebhooksFail(t *testing.T) {
	first := allWebhooksFail(t, 0)
	for seed := range uint64(3) {
		assert.Equal(t, seed == 0, slices.Equal(first, allWebhooksFail(t, seed)))
	}
}

// allWebhooksFail returns the times of all attempts, relative to the call.
func allWebhooksFail(t *testing.T, seed uint64) (times []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		srv, h := inProcess(t, engine.Config{
			Destinations: []tracking.Destination{hook("d", "http://h/1", "http://h/2", "http://h/3", "http://h/4", "http://h/5")},
			Jitter: func() float64 {
				mu.Lock()
				defer mu.Unlock()
				return random.Float64()
			},
		})
		h.answer("/1", status(http.StatusServiceUnavailable))
		h.answer("/2", hang)
		h.answer("/3", status(http.StatusNotFound)) // permanent
		h.answer("/4", status(http.StatusTooManyRequests))
		h.answer("/5", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		start := time.Now()
		send(t, srv, track("m", 1))
		time.Sleep(4*time.Hour + time.Minute)

		record := srv.Expect(t, mockserver.InState("d", tracking.StateFailed))
		times = h.times("/1", start)
		for _, path := range []string{"/2", "/4", "/5"} {
			assert.Equal(t, times, h.times(path, start), "%s is asked each time", path)
		}
		assert.Len(t, h.times("/3", start), 1, "a webhook that has refused the call permanently is not asked again")
		assertSchedule(t, times)
		assert.Len(t, record.Ends, len(times))
		for i, end := range record.Ends {
			assert.Equal(t, i+1, end.Attempt)
		}
		assert.Len(t, record.Attempts, 4*len(times)+1, "the history of all attempts")
		o, _ := record.State("d")
		assert.Contains(t, o.Reason, "4 hours have passed")
		assert.Contains(t, o.Reason, "503")
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 1, Failed: 1}, account(t, srv))

		time.Sleep(time.Hour) // six times the maximum backoff
		assert.Len(t, h.times("/1", start), len(times), "no attempt after the retry window")
	})
	return times
}

// assertSchedule checks that each delay is at most the backoff limit plus the duration of
// an attempt, and that attempts continue for four hours.
func assertSchedule(t *testing.T, times []time.Duration) {
	t.Helper()
	require.NotEmpty(t, times)
	assert.Zero(t, times[0])
	for i := 1; i < len(times); i++ {
		ceiling := min(time.Second<<min(i-1, 20), 10*time.Minute)
		assert.LessOrEqual(t, times[i]-times[i-1], ceiling+webhook.Timeout, "attempt %d", i+1)
	}
	end := times[len(times)-1]
	assert.GreaterOrEqual(t, end, 4*time.Hour-webhook.Timeout, "the last attempt is at the end of the window")
	assert.LessOrEqual(t, end, 4*time.Hour)
	assert.Greater(t, len(times), 24, "at most ten minutes lie between two")
}

func TestRetrySkipsPermanentFailures(t *testing.T) {
	for name, test := range map[string]struct {
		first   map[string]http.HandlerFunc
		then    func(srv *mockserver.Server) // called before the second attempt
		again   []string                     // webhooks that receive a second attempt
		outcome tracking.State
		reason  string
	}{
		"all refuse": {
			first:   map[string]http.HandlerFunc{"/1": status(400), "/2": status(401), "/3": status(404)},
			outcome: tracking.StateFailed, reason: "404",
		},
		"a redirect is no success": {
			first:   map[string]http.HandlerFunc{"/1": status(302), "/2": status(307), "/3": status(304)},
			outcome: tracking.StateFailed, reason: "redirects are not followed",
		},
		"one may recover": {
			first: map[string]http.HandlerFunc{"/1": status(400), "/2": status(500), "/3": status(400)},
			again: []string{"/2"}, outcome: tracking.StateDelivered,
		},
		"408, 425 and 429 too": {
			first: map[string]http.HandlerFunc{"/1": status(408), "/2": status(425), "/3": status(429)},
			again: []string{"/1", "/2", "/3"}, outcome: tracking.StateDelivered,
		},
		"settings that were mended": {
			first: map[string]http.HandlerFunc{"/1": status(401), "/2": status(500), "/3": status(400)},
			then: func(srv *mockserver.Server) {
				s := srv.Engine().Settings()
				s.Destinations[0].Webhooks = append([]webhook.Endpoint(nil), s.Destinations[0].Webhooks...)
				s.Destinations[0].Webhooks[0].Headers = map[string]string{"Authorization": "Bearer right"}
				_ = srv.Engine().Apply(t.Context(), s)
			},
			again: []string{"/1", "/2"}, outcome: tracking.StateDelivered,
		},
		"only those that refused are left": {
			first: map[string]http.HandlerFunc{"/1": status(401), "/2": status(500), "/3": status(400)},
			then: func(srv *mockserver.Server) {
				s := srv.Engine().Settings()
				s.Destinations[0].Webhooks = []webhook.Endpoint{{URL: "http://h/1"}, {URL: "http://h/3"}}
				_ = srv.Engine().Apply(t.Context(), s)
			},
			outcome: tracking.StateFailed, reason: "refused the call permanently",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, h := inProcess(t, engine.Config{
					Destinations: []tracking.Destination{hook("d", "http://h/1", "http://h/2", "http://h/3")},
					Jitter:       func() float64 { return 1 },
				})
				for path, answer := range test.first {
					h.answer(path, answer)
				}
				start := time.Now()
				send(t, srv, track("m", 1))
				synctest.Wait()
				for path := range test.first {
					h.answer(path, nil)
				}
				if test.then != nil {
					test.then(srv)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				var again []string
				for _, path := range []string{"/1", "/2", "/3"} {
					if len(h.times(path, start)) > 1 {
						again = append(again, path)
					}
				}
				assert.Equal(t, test.again, again)
				record := srv.Expect(t, mockserver.InState("d", test.outcome))
				o, _ := record.State("d")
				assert.Contains(t, o.Reason, test.reason)
			})
		})
	}
}

func TestRetryAfterIsHonored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		n := 0
		h.answer("/1", func(w http.ResponseWriter, _ *http.Request) {
			if n++; n == 1 {
				w.Header().Set("Retry-After", "1800")
				w.WriteHeader(http.StatusServiceUnavailable)
			} else if n == 2 {
				w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		start := time.Now()
		send(t, srv, track("m", 1))
		time.Sleep(2 * time.Hour)
		srv.Expect(t, mockserver.DeliveredTo("d"))
		times := h.times("/1", start)
		require.Len(t, times, 3)
		assert.Equal(t, 30*time.Minute, times[1])
		assert.InDelta(t, time.Hour, times[2]-times[1], float64(time.Second), "a date has no milliseconds")
	})
}

// unreachable returns a transport wrapper that refuses connections while down is set.
func unreachable(down *atomic.Bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return next.RoundTrip(r)
		})
	}
}

// After ten consecutive connection failures, the collector probes the destination with
// one call at a time, and the other calls wait in the journal.
func TestUnreachableDestinationIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried atomic.Int64
		var down atomic.Bool
		down.Store(true)
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}, Concurrency: 4, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			next = unreachable(&down)(next)
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				tried.Add(1)
				return next.RoundTrip(r)
			})
		}})
		for i := range 200 {
			send(t, srv, track(fmt.Sprint("m", i), 5))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.LessOrEqual(t, int(tried.Load()), 10+4+3600, "one each second")
		assert.Greater(t, int(tried.Load()), 3000, "but it is tried")
		s := srv.Engine().Status()
		require.Len(t, s, 1)
		assert.True(t, s[0].Down)
		assert.NotZero(t, s[0].ProbeAt)
		assert.LessOrEqual(t, time.Until(s[0].ProbeAt), time.Second)

		down.Store(false)
		start := time.Now()
		sendAs(t, srv, "other", track("good", 45))
		for i := range 45 {
			srv.Expect(t, mockserver.WithID(fmt.Sprint("good-", i)), mockserver.DeliveredTo("d"))
		}
		assert.Less(t, time.Since(start), 2*time.Second)
		time.Sleep(11 * time.Minute) // longer than the maximum backoff
		synctest.Wait()
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 1045, Delivered: 1045}, account(t, srv))
		assert.False(t, srv.Engine().Status()[0].Down)
		assert.Len(t, h.times("/1", start), 1045, "each came once")
	})
}

// Every call is attempted, but the number of attempts per second is limited.
func TestFailingDestinationIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 5 * 2_500
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		h.answer("/1", status(http.StatusBadGateway))
		start := time.Now()
		for i := range 5 {
			send(t, srv, track(fmt.Sprint("m", i), 2_500))
		}
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 10*1000, len(h.times("/1", start)), 200)
		assert.True(t, srv.Engine().Status()[0].Down)
		h.answer("/1", nil)
		time.Sleep(11 * time.Minute) // longer than the maximum backoff
		synctest.Wait()
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: all, Delivered: all}, account(t, srv))
		assert.False(t, srv.Engine().Status()[0].Down)
	})
}

// If a receiver fails one call, the other calls are still attempted immediately.
func TestOneFailingCallDoesNotBreakTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		h.answer("/1", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(webhook.MessageIDHeader) == "poison-0" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		send(t, srv, track("poison", 1))
		time.Sleep(3 * time.Hour) // many more than ten attempts
		synctest.Wait()
		record, _ := srv.Call("poison-0")
		require.Greater(t, len(record.Attempts), 10)
		assert.False(t, srv.Engine().Status()[0].Down)
		start := time.Now()
		send(t, srv, track("good", 1))
		srv.Expect(t, mockserver.WithID("good-0"), mockserver.DeliveredTo("d"))
		assert.Zero(t, time.Since(start))
	})
}

// Every change of status is logged once.
func TestLogOfDestinationState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		srv, h := inProcess(t, engine.Config{
			Logger:       slog.New(slog.NewTextHandler(&log, nil)),
			Destinations: []tracking.Destination{hook("d", "http://h/1")},
		})
		h.answer("/1", status(http.StatusServiceUnavailable))
		send(t, srv, track("early", 40))
		time.Sleep(30 * time.Second)
		h.answer("/1", nil)
		send(t, srv, track("well", 1))
		time.Sleep(20 * time.Second)
		h.answer("/1", status(http.StatusInsufficientStorage)) // not logged within a minute of the previous change
		for i := range 3 {
			send(t, srv, track(fmt.Sprint("again", i), 20))
			time.Sleep(10 * time.Second)
		}
		h.answer("/1", nil)
		time.Sleep(time.Hour)
		require.EqualValues(t, 101, account(t, srv).Delivered)
		h.answer("/1", status(http.StatusNotFound))
		for i := range 5 {
			send(t, srv, track(fmt.Sprint("refused", i), 2))
			time.Sleep(25 * time.Second)
		}
		require.EqualValues(t, 10, account(t, srv).Failed)
		synctest.Wait()
		var lines []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, " level=")
			lines = append(lines, line)
		}
		assert.Equal(t, []string{
			"WARN msg=\"destination failing: reduced rate of attempts\" destination=d error=\"responded with 503 (Service Unavailable)\"\n",
			"INFO msg=\"destination recovered\" destination=d\n",
			"WARN msg=\"destination failing: reduced rate of attempts\" destination=d error=\"responded with 507 (Insufficient Storage)\"\n",
			"INFO msg=\"destination recovered\" destination=d\n",
			"WARN msg=\"calls failed permanently; they can be replayed\" destination=d calls=2 error=\"responded with 404 (Not Found)\" \"failed since the last message\"=0\n",
			"WARN msg=\"calls failed permanently; they can be replayed\" destination=d calls=2 error=\"responded with 404 (Not Found)\" \"failed since the last message\"=4\n",
		}, lines)
	})
}

// Even if a receiver fails many calls, calls of another source are attempted within
// seconds, and calls of the same source within a minute.
func TestFailingCallsDoNotDelayOthers(t *testing.T) {
	const good = 45
	batches := func(n, size int) (bodies []string) {
		for i := range n {
			bodies = append(bodies, track(fmt.Sprint("bad", i), size))
		}
		return bodies
	}
	mixed := func(bodies []string) []string { // replaces one call of each batch with a good call
		for i, b := range bodies {
			bodies[i] = strings.Replace(b, fmt.Sprintf(`"bad%d-1249"`, i), fmt.Sprintf(`"good%d-mixed"`, i), 1)
		}
		return bodies
	}
	for name, test := range map[string]struct {
		bad    []string
		answer http.HandlerFunc
		wait   time.Duration // delay before the good calls
		other  time.Duration // limit for calls of another source
		same   time.Duration // limit for calls of the same source
	}{
		"40 one by one":                      {bad: batches(40, 1), answer: status(500), other: time.Second, same: time.Second},
		"40 that were tried for ten minutes": {bad: batches(40, 1), answer: status(500), wait: 10 * time.Minute, other: time.Second, same: time.Second},
		"3,000 one by one":                   {bad: batches(3_000, 1), answer: status(500), other: time.Second, same: time.Minute},
		"1,500 that were tried for a minute": {bad: batches(1_500, 1), answer: status(503), wait: time.Minute, other: time.Second, same: 10 * time.Second},
		"1,000 that were tried just now":     {bad: batches(1_000, 1), answer: status(429), wait: 2 * time.Second, other: time.Second, same: 10 * time.Second},
		"two batches of 2,500":               {bad: batches(2, 2_500), answer: status(500), other: time.Second, same: time.Minute},
		"batches with a good call in each":   {bad: mixed(batches(2, 2_500)), answer: status(500), other: time.Second, same: time.Minute},
		"connections that are reset":         {bad: batches(1, 2_500), answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, other: time.Second, same: time.Minute},
		"receivers that hang":                {bad: batches(1_500, 1), answer: hang, other: 10 * time.Second, same: 30 * time.Minute},
		"receivers that hang in batches":     {bad: batches(2, 2_500), answer: hang, wait: time.Minute, other: 10 * time.Second, same: 30 * time.Minute},
		"a response after four seconds":      {bad: batches(1_500, 1), answer: slow, wait: time.Second, other: 10 * time.Second, same: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if calls := strings.Count(strings.Join(test.bad, ""), `"type"`); testing.Short() && calls > 100 {
				t.Skipf("%d calls take a while", calls)
			}
			synctest.Test(t, func(t *testing.T) {
				srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
				want := 2 * good
				for _, body := range test.bad {
					want += strings.Count(body, "mixed")
				}
				arrivals := make(chan string, want)
				h.answer("/1", func(w http.ResponseWriter, r *http.Request) {
					id := r.Header.Get(webhook.MessageIDHeader)
					if strings.HasPrefix(id, "bad") {
						test.answer(w, r)
						return
					}
					assert.Equal(t, "1", r.Header.Get(webhook.AttemptHeader))
					arrivals <- id
				})
				for _, body := range test.bad {
					sendAs(t, srv, "bad", body)
				}
				time.Sleep(test.wait)
				start := time.Now()
				for i := range good {
					sendAs(t, srv, "bad", track(fmt.Sprint("same", i), 1))
					sendAs(t, srv, "another", track(fmt.Sprint("other", i), 1))
				}
				arrived, latest := map[string]bool{}, map[string]time.Duration{}
				for timeout := time.After(test.same); len(arrived) < want; {
					select {
					case id := <-arrivals:
						arrived[id] = true
						kind := strings.TrimRight(strings.Split(id, "-")[0], "0123456789")
						latest[kind] = time.Since(start)
					case <-timeout:
						t.Fatalf("%d of %d good calls arrived", len(arrived), want)
					}
				}
				time.Sleep(10 * time.Second) // a second attempt would be made after at most a second
				assert.Empty(t, arrivals, "good calls are delivered once")
				assert.LessOrEqual(t, latest["other"], test.other)
				t.Log("the last good calls came after ", latest)
			})
		})
	}
}

// The number of requests in flight to the hanging destination is limited.
func TestHangingDestinationDoesNotSlowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := hook("slow", "http://h/1", "http://h/2", "http://h/3", "http://h/4", "http://h/5"), hook("fast", "http://h/fast")
		underWay := peak{but: "/fast"}
		srv, h := inProcess(t, engine.Config{
			Destinations: []tracking.Destination{slow, fast}, Concurrency: 8, WrapTransport: underWay.wrap,
		})
		for i := range 5 {
			h.answer(fmt.Sprintf("/%d", i+1), hang)
		}
		start := time.Now()
		const batches, size = 40, 50
		for i := range batches {
			send(t, srv, track(fmt.Sprint("m", i), size))
		}
		_, err := srv.Wait(t.Context(), batches*size, mockserver.DeliveredTo("fast"))
		require.NoError(t, err)
		assert.Zero(t, time.Since(start), "not a moment was lost")
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, underWay.max(), 8*5)
		assert.Len(t, srv.Calls(mockserver.DeliveredTo("fast")), batches*size)
	})
}

// Entries with one call each are delivered as concurrently as the calls of one batch.
func TestSmallEntriesUseFullConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay peak
		srv, h := inProcess(t, engine.Config{
			Concurrency: 16, Destinations: []tracking.Destination{hook("d", "http://h/1")}, WrapTransport: underWay.wrap,
		})
		h.answer("/1", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		for i := range 160 {
			send(t, srv, track(fmt.Sprint(i), 1))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 160, Delivered: 160}, account(t, srv))
		assert.Equal(t, 16, underWay.max())
	})
}

// One webhook accepts calls immediately while another hangs. The number of trailing
// requests to the hanging webhook is limited.
func TestTrailingRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay peak
		srv, h := inProcess(t, engine.Config{
			Destinations: []tracking.Destination{hook("d", "http://h/1", "http://h/2")}, WrapTransport: underWay.wrap,
		})
		h.answer("/2", hang)
		const calls = 2_400
		send(t, srv, track("m", calls))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := srv.Wait(ctx, calls, mockserver.DeliveredTo("d"))
		require.NoError(t, err)
		assert.Greater(t, underWay.max(), 500)
		assert.LessOrEqual(t, underWay.max(), 1024+2*engine.DefaultConcurrency)
	})
}

func TestPauseWhileFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Concurrency: 1, Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		h.answer("/1", status(http.StatusServiceUnavailable))
		start := time.Now()
		for i := range 30 { // more entries than are processed at once, and more calls than the concurrency limit
			send(t, srv, track(fmt.Sprint("m", i), 3))
		}
		time.Sleep(time.Minute)
		assert.True(t, srv.Engine().Status()[0].Down)
		require.NoError(t, srv.Pause(t.Context(), "d"))
		synctest.Wait()
		before := len(h.times("/1", start))
		time.Sleep(2 * time.Hour)
		assert.Len(t, h.times("/1", start), before, "entries that were leased before do not go on")
		h.answer("/1", nil)
		require.NoError(t, srv.Resume(t.Context(), "d"))
		time.Sleep(time.Hour)
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 90, Delivered: 90}, account(t, srv))
	})
}

// A pause returns calls that wait for admission to the queue. Resume delivers them.
func TestPauseAndResumeWhileFailing(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			srv, h := inProcess(t, engine.Config{Concurrency: 1, Destinations: []tracking.Destination{hook("d", "http://h/1")}})
			h.answer("/1", status(http.StatusServiceUnavailable))
			for i := range 6 {
				send(t, srv, track(fmt.Sprint("m", i), 5))
			}
			synctest.Wait()
			require.True(t, srv.Engine().Status()[0].Down)
			h.answer("/1", nil)
			require.NoError(t, srv.Pause(t.Context(), "d"))
			require.NoError(t, srv.Resume(t.Context(), "d"))
			time.Sleep(time.Second) // longer than the first backoff
			synctest.Wait()
			assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 30, Delivered: 30}, account(t, srv))
		})
	}
}

func TestPauseStopsLeasedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Concurrency: 2, Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		h.answer("/1", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		start := time.Now()
		for i := range 6 {
			send(t, srv, track(fmt.Sprint(i), 10))
		}
		time.Sleep(3500 * time.Millisecond)
		require.NoError(t, srv.Pause(t.Context(), "d"))
		time.Sleep(time.Hour)
		assert.Len(t, h.times("/1", start), 8, "those under way end, and no other begins")
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 60, Delivered: 8, Pending: 52}, account(t, srv))

		resumed := time.Since(start)
		require.NoError(t, srv.Resume(t.Context(), "d"))
		time.Sleep(time.Minute)
		times := h.times("/1", start)
		require.Len(t, times, 60, "each is delivered once")
		assert.Equal(t, resumed, times[8], "calls that were not tried have no backoff")
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 60, Delivered: 60}, account(t, srv))
	})
}

func TestPauseStopsDestinationWithoutQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		pause := sync.OnceFunc(func() { assert.NoError(t, srv.Pause(context.Background(), "d")) })
		start := time.Now()
		h.answer("/1", func(http.ResponseWriter, *http.Request) {
			if len(h.times("/1", start)) >= 10 {
				pause()
			}
		})
		send(t, srv, track("m", 2_500))
		time.Sleep(time.Minute)
		assert.Less(t, len(h.times("/1", start)), 10+2*engine.DefaultConcurrency)
	})
}

// Calls waiting for a failing destination must not be sent to its previous URL.
func TestChangedSettingsReachLeasedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Concurrency: 4, Destinations: []tracking.Destination{hook("d", "http://h/wrong")}})
		h.answer("/wrong", status(http.StatusServiceUnavailable))
		start := time.Now()
		for i := range 6 {
			send(t, srv, track(fmt.Sprint(i), 50))
		}
		time.Sleep(10 * time.Minute)
		require.True(t, srv.Engine().Status()[0].Down)
		before := h.times("/wrong", start)

		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{hook("d", "http://h/right")}}))
		time.Sleep(11 * time.Minute)
		assert.Equal(t, before, h.times("/wrong", start), "not one more goes to the old URL")
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 300, Delivered: 300}, account(t, srv))
	})
}

// Calls that waited while one webhook was configured are sent to all five.
func TestAddedWebhooksReceiveWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay peak
		srv, h := inProcess(t, engine.Config{Concurrency: 8, Destinations: []tracking.Destination{hook("d", "http://h/1")}, WrapTransport: underWay.wrap})
		h.answer("/1", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		start := time.Now()
		send(t, srv, track("m", 1_000))
		time.Sleep(1500 * time.Millisecond)
		h.answer("/1", nil)
		for i := range 4 {
			h.answer(fmt.Sprintf("/%d", i+2), hang)
		}
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{
			hook("d", "http://h/1", "http://h/2", "http://h/3", "http://h/4", "http://h/5")}}))
		time.Sleep(time.Minute)
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 1_000, Delivered: 1_000}, account(t, srv))
		assert.Len(t, h.times("/1", start), 1_000)
		for i := range 4 {
			assert.Len(t, h.times(fmt.Sprintf("/%d", i+2), start), 1_000-16, "all but those that were under way before")
		}
		assert.Greater(t, underWay.max(), 500)
		assert.LessOrEqual(t, underWay.max(), 1024+8*5, "those that are left behind are bounded")
	})
}

func TestDisablingReachesLeasedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Concurrency: 2, Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		h.answer("/1", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		start := time.Now()
		send(t, srv, track("m", 20))
		time.Sleep(1500 * time.Millisecond)
		d := hook("d", "http://h/1")
		d.Disabled = true
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		time.Sleep(time.Minute)
		assert.Len(t, h.times("/1", start), 4)
		assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: 20, Delivered: 4, Filtered: 16}, account(t, srv))
	})
}

// A webhook that refused a call permanently does not receive it again, even if a pause
// interrupts other calls of the same entry.
func TestInterruptedCallsKeepTheirRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Concurrency: 1, Jitter: func() float64 { return 1 },
			Destinations: []tracking.Destination{hook("d", "http://h/refuses", "http://h/fails")}})
		h.answer("/refuses", status(http.StatusNotFound))
		h.answer("/fails", status(http.StatusServiceUnavailable))
		start := time.Now()
		send(t, srv, track("m", 2))
		time.Sleep(500 * time.Millisecond)
		h.answer("/fails", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		time.Sleep(time.Second) // the first call's second attempt is in flight; the second call waits
		require.NoError(t, srv.Pause(t.Context(), "d"))
		time.Sleep(time.Minute)
		require.NoError(t, srv.Resume(t.Context(), "d"))
		time.Sleep(time.Minute)
		assert.Len(t, h.times("/refuses", start), 2, "once for each call")
	})
}

// Calls of one entry have separate attempt numbers.
func TestAttemptsAreCountedPerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Concurrency: 1, Jitter: func() float64 { return 1 }, Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		var mu sync.Mutex
		attempts := map[string][]string{}
		h.answer("/1", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			id := r.Header.Get(webhook.MessageIDHeader)
			attempts[id] = append(attempts[id], r.Header.Get(webhook.AttemptHeader))
			mu.Unlock()
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		send(t, srv, track("m", 3))
		for range 2 { // the first call fails; the others wait
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, srv.Pause(t.Context(), "d"))
			time.Sleep(time.Minute)
			require.NoError(t, srv.Resume(t.Context(), "d"))
		}
		time.Sleep(2500 * time.Millisecond) // all three fail
		require.NoError(t, srv.Pause(t.Context(), "d"))
		time.Sleep(time.Minute)
		h.answer("/1", nil)
		require.NoError(t, srv.Resume(t.Context(), "d"))
		time.Sleep(time.Minute)

		mu.Lock()
		assert.Equal(t, map[string][]string{"m-0": {"1", "2", "3"}, "m-1": {"1"}, "m-2": {"1"}}, attempts)
		mu.Unlock()
		var tried []int
		for _, call := range srv.Engine().History().Records(nil) {
			for _, e := range call.Ends {
				tried = append(tried, e.Attempt)
			}
		}
		assert.Equal(t, []int{1, 2, 3, 4, 1, 2, 1, 2}, tried, "and nothing is said of attempts that were not made")
	})
}

// A stuckJournal leases calls but does not accept results, as on a full disk.
type stuckJournal struct{ journal.Journal }

func (j stuckJournal) Attach(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	r, err := j.Journal.Attach(ctx, destination, sources)
	return stuckReader{r}, err
}

type stuckReader struct{ journal.Reader }

func (r stuckReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	l, err := r.Reader.Next(ctx, want)
	return stuckLease{l}, err
}

type stuckLease struct{ journal.Lease }

func (stuckLease) Finish(ctx context.Context, _ journal.Result) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCloseWhileTheJournalRefusesResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{
			Journal:      stuckJournal{journal.NewMemory(0)},
			Destinations: []tracking.Destination{{Name: "hook", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://hook.test/a"}}}}},
			Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}},
		})
		begin := time.Now()
		send(t, srv, `{"batch":[{"type":"track","userId":"u","event":"E"}]}`)
		synctest.Wait()
		assert.Len(t, h.times("/a", begin), 1)
		time.Sleep(24 * time.Hour)
		assert.Len(t, h.times("/a", begin), 1, "it was not delivered again")
		begin = time.Now()
		require.NoError(t, srv.Engine().Close())
		assert.Less(t, time.Since(begin), 10*time.Second)
	})
}
