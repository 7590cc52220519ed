package analytics_test

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/backo-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// retryCounts returns the X-Retry-Count of each request, or "" if the header is missing.
func (c *collector) retryCounts() (counts []string) {
	for _, p := range c.all() {
		counts = append(counts, strings.Join(p.header.Values("X-Retry-Count"), ","))
	}
	return counts
}

// statuses returns a collector that gives these responses in order, and then accepts all requests.
func statuses(answers ...answer) *collector {
	return &collector{decide: func(i int, _ post) answer {
		if i < len(answers) {
			return answers[i]
		}
		return answer{}
	}}
}

func retryAfter(status int, value string) answer {
	return answer{status: status, header: http.Header{"Retry-After": {value}}}
}

func TestRetryCount(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []answer
		want    []string
	}{
		"delivered at once":     {nil, []string{""}},
		"failures":              {[]answer{{status: 408}, {status: 500}, {err: errRefusedConn}}, []string{"", "1", "2", "3"}},
		"waits that were asked": {[]answer{retryAfter(429, "1"), retryAfter(503, "1")}, []string{"", "1", "2"}},
		"both":                  {[]answer{{status: 500}, retryAfter(429, "1"), {status: 500}}, []string{"", "1", "2", "3"}},
		"refused":               {[]answer{{status: 401}}, []string{""}},
		"parts start over":      {[]answer{{status: 500}, {status: 413}, {status: 500}}, []string{"", "1", "", "1", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := statuses(tt.answers...)
				client := newClient(t, c, analytics.Config{CloseTimeout: time.Hour})
				track(t, client, "e", 2)
				_ = client.Close()
				require.Equal(t, tt.want, c.retryCounts())
			})
		})
	}
}

// Each request has the right X-Retry-Count when batches are sent concurrently. The requests of the
// client's own transport share one http.Header unless they are retries.
func TestRetryCountOverSockets(t *testing.T) {
	old := analytics.Backo
	analytics.Backo = backo.NewBacko(time.Millisecond, 1, 0, time.Millisecond)
	t.Cleanup(func() { analytics.Backo = old })
	var mu sync.Mutex
	counts := map[string][]string{} // X-Retry-Count of each request, by event
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := readPost(r)
		event, _ := p.body.Batch[0]["event"].(string)
		mu.Lock()
		defer mu.Unlock()
		counts[event] = append(counts[event], r.Header.Get("X-Retry-Count"))
		if len(counts[event]) < 3 && strings.HasSuffix(event, "0") {
			w.WriteHeader(503)
		}
	}))
	t.Cleanup(s.Close)
	client, err := analytics.NewWithConfig("write-key-0123456789", analytics.Config{Endpoint: s.URL, FlushAt: 1})
	require.NoError(t, err)
	track(t, client, "e", 100)
	require.NoError(t, client.Close())
	require.Len(t, counts, 100)
	for event, got := range counts {
		want := []string{""}
		if strings.HasSuffix(event, "0") {
			want = []string{"", "1", "2"}
		}
		require.Equal(t, want, got, event)
	}
}

// A batch that moved to the end of the queue keeps its retry count, even if another sender sends
// it.
func TestRetryCountOfABatchThatStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := &collector{decide: func(_ int, p post) answer {
			if p.at.Sub(start) < 10*time.Minute {
				return answer{status: 503}
			}
			return answer{}
		}}
		client := newClient(t, c, analytics.Config{FlushAt: 1, MaxInFlight: 1, CloseTimeout: time.Hour})
		track(t, client, "e", 2)
		require.NoError(t, client.Close())
		next := map[any]int{}
		for _, p := range c.all() {
			want := ""
			if n := next[p.body.Batch[0]["event"]]; n > 0 {
				want = strconv.Itoa(n)
			}
			require.Equal(t, want, p.header.Get("X-Retry-Count"))
			next[p.body.Batch[0]["event"]]++
		}
		require.Len(t, next, 2)
		require.Greater(t, next["e-000"], 10)
		require.Greater(t, next["e-001"], 1)
	})
}

func TestRetryAfterZeroWaitsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := statuses(retryAfter(429, "0"), retryAfter(503, "0"))
		client := newClient(t, c, analytics.Config{MaxAttempts: 1, CloseTimeout: time.Hour})
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
		for i, p := range c.all() {
			require.Equal(t, time.Duration(i)*time.Second, p.at.Sub(c.all()[0].at))
		}
	})
}

func TestRateLimitResetHoldsThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{decide: func(i int, _ post) answer {
			if i > 0 {
				return answer{}
			}
			reset := strconv.FormatInt(time.Now().Add(40*time.Second).UnixMilli(), 10)
			return answer{status: 429, header: http.Header{"X-Ratelimit-Reset": {reset}}}
		}}
		client := newClient(t, c, analytics.Config{FlushAt: 1, CloseTimeout: time.Hour})
		track(t, client, "a", 1)
		synctest.Wait()
		track(t, client, "b", 1)
		require.NoError(t, client.Close())
		for _, p := range c.all()[1:] {
			require.Equal(t, 40*time.Second, p.at.Sub(c.all()[0].at))
		}
		require.Len(t, c.all(), 3)
	})
}

// New uses the pauses of version 2. NewWithConfig uses the pauses of the service's current
// libraries, unless the program sets Backo.
func TestWhichBackoff(t *testing.T) {
	version2 := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000}
	contract := []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000}
	mine := []time.Duration{7000, 7000, 7000, 7000, 7000, 7000, 7000, 7000, 7000}
	for _, tt := range []struct {
		name    string
		version int
		backo   *backo.Backo
		want    []time.Duration // expected pauses in milliseconds; jitter subtracts up to a quarter
	}{
		{"New", 2, analytics.Backo, version2},
		{"New, Backo set", 2, backo.NewBacko(7*time.Second, 1, 0, time.Hour), mine},
		{"New, Backo nil", 2, nil, version2},
		{"NewWithConfig", 3, analytics.Backo, contract},
		{"NewWithConfig, Backo set", 3, backo.NewBacko(7*time.Second, 1, 0, time.Hour), mine},
		{"NewWithConfig, Backo nil", 3, nil, contract},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := analytics.Backo
			analytics.Backo = tt.backo
			t.Cleanup(func() { analytics.Backo = old })
			synctest.Test(t, func(t *testing.T) {
				c := always(answer{status: 500})
				client := newClient(t, c, analytics.Config{MaxAttempts: 10})
				if tt.version == 2 {
					client = analytics.New("write-key-0123456789")
					client.Client.Transport, client.Logger = c, log.New(io.Discard, "", 0)
				}
				track(t, client, "e", 5) // Close sends the batch; a pause that started before Close would be shortened
				require.Error(t, client.Shutdown(t.Context()))
				posts := c.all()
				require.Len(t, posts, 10)
				for i, want := range tt.want {
					want *= time.Millisecond
					wait := posts[i+1].at.Sub(posts[i].at)
					require.True(t, wait <= want && wait >= want*3/4, "wait %d is %v, not %v", i, wait, want)
				}
			})
		})
	}
}

// Config.Backoff applies to one client. It may use the client. The client recovers a panic in it.
func TestConfigBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := always(answer{status: 500})
		var client *analytics.Client
		var asked []int
		var output bytes.Buffer
		client = newClient(t, c, analytics.Config{MaxAttempts: 5, Logger: log.New(&output, "", 0), Backoff: func(retries int) time.Duration {
			asked = append(asked, retries)
			if retries == 0 {
				require.EqualValues(t, 20, client.Stats().Pending)
			}
			if retries == 3 {
				panic("out of range")
			}
			return time.Duration(retries-1) * time.Hour // the first pause is negative
		}})
		track(t, client, "e", 20)
		time.Sleep(2 * time.Hour)
		require.ErrorContains(t, client.Shutdown(t.Context()), "20 calls not delivered")
		require.Equal(t, []int{0, 1, 2, 3}, asked)
		posts := c.all()
		for i, want := range []time.Duration{0, 0, 0, time.Hour} {
			require.Equal(t, want, posts[i].at.Sub(posts[0].at), "attempt %d", i)
		}
		last := posts[4].at.Sub(posts[3].at)
		require.True(t, last >= 3*time.Second && last <= 4*time.Second, "by default: %v", last)
		require.Contains(t, output.String(), "Config.Backoff panicked: out of range")
	})
}

// While the collector is unavailable, a client without MaxAttempts retries for 12 hours.
func TestAwayForTwelveHours(t *testing.T) {
	for name, tt := range map[string]struct {
		config   analytics.Config
		away     time.Duration
		dropped  analytics.Drops
		attempts int // maximum number of attempts
	}{
		"eleven hours":                        {analytics.Config{}, 11 * time.Hour, analytics.Drops{}, 0},
		"thirteen hours":                      {analytics.Config{}, 13 * time.Hour, analytics.Drops{Expired: 5}, 0},
		"an hour, and no longer":              {analytics.Config{MaxTotalBackoffDuration: time.Hour}, 2 * time.Hour, analytics.Drops{Expired: 5}, 0},
		"two days":                            {analytics.Config{MaxTotalBackoffDuration: 72 * time.Hour}, 48 * time.Hour, analytics.Drops{}, 0},
		"ten attempts":                        {analytics.Config{MaxAttempts: 10}, time.Hour, analytics.Drops{Attempts: 5}, 10},
		"with a spool, eleven hours":          {analytics.Config{Spool: "spool"}, 11 * time.Hour, analytics.Drops{}, 0},
		"with a spool, thirteen hours":        {analytics.Config{Spool: "spool"}, 13 * time.Hour, analytics.Drops{Expired: 5}, 0},
		"with a spool, MaxAttempts is a turn": {analytics.Config{Spool: "spool", MaxAttempts: 10}, 11 * time.Hour, analytics.Drops{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.config.Spool != "" {
				tt.config.Spool = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := &collector{decide: func(_ int, p post) answer {
					if p.at.Sub(start) < tt.away {
						return answer{err: errRefusedConn}
					}
					return answer{}
				}}
				client := newClient(t, c, tt.config)
				track(t, client, "e", 5)
				err := client.Flush(t.Context())
				require.Equal(t, tt.dropped, client.Stats().Dropped)
				require.Equal(t, 5-tt.dropped.Total(), client.Stats().Delivered)
				require.Equal(t, tt.dropped.Total() > 0, err != nil, err)
				if tt.dropped.Expired > 0 {
					require.ErrorIs(t, err, errRefusedConn)
					limit := tt.config.MaxTotalBackoffDuration
					if limit == 0 {
						limit = 12 * time.Hour
					}
					require.InDelta(t, limit, time.Since(start), float64(time.Minute))
				}
				if tt.attempts > 0 {
					require.Len(t, c.all(), tt.attempts)
				}
				require.NoError(t, client.Close())
			})
		})
	}
}

// Without a spool, MaxBytes limits the number of calls that the client keeps during an outage.
// WhenFull decides which calls are lost.
func TestMemoryDecidesHowMuchOfAnOutageIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		policy analytics.FullPolicy
		newest bool // the client keeps the newest calls instead of the oldest
	}{
		"Reject":     {analytics.Reject, false},
		"DropOldest": {analytics.DropOldest, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := &collector{decide: func(_ int, p post) answer {
					if p.at.Sub(start) < 6*time.Hour {
						return answer{status: 503}
					}
					return answer{}
				}}
				client := newClient(t, c, analytics.Config{MaxBytes: 256 << 10, WhenFull: tt.policy, Logger: log.New(io.Discard, "", 0)})
				var rejected int64
				const calls = 5000
				for i := range calls {
					err := client.Track(&analytics.Track{Event: strconv.Itoa(i), UserId: "u"})
					if errors.Is(err, analytics.ErrQueueFull) {
						rejected++
					} else {
						require.NoError(t, err)
					}
					time.Sleep(4 * time.Second)
				}
				_ = client.Shutdown(t.Context()) // Shutdown returns an error under DropOldest
				s := client.Stats()
				require.Equal(t, analytics.Drops{Overflow: s.Dropped.Overflow}, s.Dropped, "nothing was given up while there was room")
				require.EqualValues(t, calls, s.Delivered+s.Dropped.Overflow+rejected)
				require.Equal(t, tt.newest, rejected == 0)
				require.Equal(t, tt.newest, s.Dropped.Overflow > 0)
				require.GreaterOrEqual(t, s.Delivered, int64(400))
				require.Equal(t, tt.newest, c.taken("event")[strconv.Itoa(calls-1)] > 0)
			})
		})
	}
}

// If the collector accepts all batches except one, that batch is dropped after MaxAttempts.
func TestPoisonBatchIsDropped(t *testing.T) {
	for _, spool := range []bool{false, true} {
		t.Run(strconv.FormatBool(spool), func(t *testing.T) {
			config := analytics.Config{FlushAt: 1}
			if spool {
				config.Spool = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				c := &collector{decide: when(answer{status: 500}, func(_ int, p post) bool { return p.body.Batch[0]["event"] == "bad-000" })}
				client := newClient(t, c, config)
				track(t, client, "bad", 1)
				start := time.Now()
				for range 300 {
					track(t, client, "good", 1)
					time.Sleep(time.Second)
				}
				require.Error(t, client.Flush(t.Context()))
				require.Equal(t, analytics.Drops{Attempts: 1}, client.Stats().Dropped)
				require.EqualValues(t, 300, client.Stats().Delivered)
				require.Less(t, time.Since(start), 5*time.Minute+10*time.Second)
				require.NoError(t, client.Close())
			})
		})
	}
}

func TestRateLimitedForTwelveHours(t *testing.T) {
	for name, tt := range map[string]struct {
		config  analytics.Config
		away    time.Duration
		dropped analytics.Drops
	}{
		"eleven hours":   {analytics.Config{MaxAttempts: 1, MaxTotalBackoffDuration: time.Second}, 11 * time.Hour, analytics.Drops{}},
		"thirteen hours": {analytics.Config{}, 13 * time.Hour, analytics.Drops{Expired: 5}},
		"a minute":       {analytics.Config{MaxRateLimitDuration: time.Minute}, time.Hour, analytics.Drops{Expired: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := &collector{decide: func(_ int, p post) answer {
					if p.at.Sub(start) < tt.away {
						return retryAfter(429, "30")
					}
					return answer{}
				}}
				var drop *analytics.DropError
				tt.config.Callback = func(r analytics.Result) { errors.As(r.Err, &drop) }
				client := newClient(t, c, tt.config)
				track(t, client, "e", 5)
				_ = client.Flush(t.Context())
				require.Equal(t, tt.dropped, client.Stats().Dropped)
				require.NoError(t, client.Close())
				if tt.dropped.Expired > 0 {
					require.Equal(t, analytics.DropExpired, drop.Reason)
					require.Equal(t, 429, drop.Status)
					require.Equal(t, len(c.all()), drop.Attempts)
				}
			})
		})
	}
}

// settingsServer responds to requests for settings and passes other requests to a collector.
type settingsServer struct {
	*collector
	answers []answer // responses in order; the last one is repeated
	asked   []*http.Request
}

func (s *settingsServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/settings") {
		return s.collector.RoundTrip(r)
	}
	a := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked = append(s.asked, r)
	time.Sleep(a.delay)
	if a.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.response(r), nil
}

func TestSettingsEndpoint(t *testing.T) {
	httpConfig := func(c string) answer {
		return answer{body: strings.NewReader(`{"integrations":{"Segment.io":{"httpConfig":` + c + `}}}`)}
	}
	for name, tt := range map[string]struct {
		settings []answer
		asked    int
		requests int // number of requests with the batch; the response to each is 500
		logged   string
	}{
		"attempts":         {[]answer{httpConfig(`{"backoffConfig":{"maxRetryCount":2}}`)}, 1, 3, ""},
		"a status dropped": {[]answer{httpConfig(`{"backoffConfig":{"statusCodeOverrides":{"500":"drop"}}}`)}, 1, 1, ""},
		"nothing of ours":  {[]answer{{body: strings.NewReader(`{}`)}}, 1, 5, ""},
		"tried again":      {[]answer{{status: 500}, {err: errRefusedConn}, httpConfig(`{"backoffConfig":{"maxRetryCount":0}}`)}, 3, 1, ""},
		"not found":        {[]answer{{status: 404}}, 1, 5, "the settings of the source cannot be read; the client keeps its configuration: the settings service responded with 404"},
		"redirected":       {[]answer{{status: 302}}, 1, 5, "set SettingsEndpoint to the URL of the settings service"},
		"not JSON":         {[]answer{{body: strings.NewReader("<html>")}}, 1, 5, "cannot be read"},
		"a long number":    {[]answer{httpConfig(`{"backoffConfig":{"maxRetryCount":1` + strings.Repeat("0", 50_000) + `}}`)}, 1, 5, "cannot be read"},
		"never":            {[]answer{{status: 503}}, 5, 5, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failing := when(answer{status: 500}, func(i int, _ post) bool { return i > 0 })
				s := &settingsServer{collector: &collector{decide: failing}, answers: tt.settings}
				var log lines
				client := newClient(t, s, analytics.Config{MaxAttempts: 5, SettingsEndpoint: "https://cdn.example/", Logger: log.logger()})
				track(t, client, "first", 1)
				time.Sleep(10 * time.Minute) // enough time for all retries of the settings request
				track(t, client, "e", 1)
				require.Error(t, client.Flush(t.Context()))
				require.NoError(t, client.Close())
				require.Len(t, s.asked, tt.asked)
				require.Equal(t, "https://cdn.example/v1/projects/write-key-0123456789/settings", s.asked[0].URL.String())
				require.Empty(t, s.asked[0].Header.Get("Authorization"))
				require.Len(t, s.all(), 1+tt.requests)
				require.Contains(t, log.String(), tt.logged)
				require.Less(t, len(log.String()), 2000)
			})
		})
	}
}

// The first batch waits for the settings for a limited time.
func TestSettingsHoldTheFirstBatch(t *testing.T) {
	for name, tt := range map[string]struct {
		settings answer
		delay    time.Duration
	}{
		"hang":  {answer{hang: true}, 2 * time.Second},
		"late":  {answer{delay: time.Second}, time.Second},
		"wrong": {answer{status: 404}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &settingsServer{collector: &collector{}, answers: []answer{tt.settings}}
				client := newClient(t, s, analytics.Config{SettingsEndpoint: "https://cdn.example"})
				start := time.Now()
				track(t, client, "e", 20)
				require.Zero(t, time.Since(start), "a caller was held")
				require.NoError(t, client.Close())
				require.Equal(t, tt.delay, time.Since(start))
				require.Len(t, s.all(), 1)
			})
		})
	}
}

func TestNoSettingsAreReadUnlessAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		client := newClient(t, c, analytics.Config{})
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
		require.Len(t, c.all(), 1)
	})
}
