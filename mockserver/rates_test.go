package mockserver_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestMaxPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("d", "http://h/1")
		d.MaxPerSecond = 10
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}})
		start := time.Now()
		send(t, srv, track("m", 100))
		time.Sleep(20 * time.Second)
		times := h.times("/1", start)
		require.Len(t, times, 100)
		assert.InDelta(t, 10*time.Second, times[99], float64(200*time.Millisecond))
		for i := range 100 - 10 {
			assert.GreaterOrEqual(t, times[i+10]-times[i], 980*time.Millisecond, "no more than ten in any second")
		}

		// A new rate applies to waiting calls.
		start = time.Now()
		send(t, srv, track("n", 100))
		time.Sleep(time.Second)
		d.MaxPerSecond = 0
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		synctest.Wait()
		assert.Len(t, h.times("/1", start), 200)
		assert.EqualValues(t, 200, account(t, srv).Delivered)
	})
}

// reset returns the peak since the previous reset.
func (p *peak) reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	p.most = 0
	return most
}

func TestConcurrencyOfADestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("d", "http://h/1")
		d.Concurrency = 3
		var p peak
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}, WrapTransport: p.wrap})
		h.answer("/1", func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) })
		send(t, srv, track("m", 30))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 3, p.reset())
		d.Concurrency = 100 // more than the default
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		send(t, srv, track("n", 100))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 100, p.reset())
		d.Concurrency = 0
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		send(t, srv, track("o", 100))
		time.Sleep(10 * time.Second)
		assert.Equal(t, engine.DefaultConcurrency, p.reset())
		assert.EqualValues(t, 230, account(t, srv).Delivered)
	})
}

// After a Retry-After, no call is sent before the requested time.
func TestRetryAfterPausesTheDestination(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		pause      time.Duration
	}{
		"seconds":                {http.StatusTooManyRequests, "60", time.Minute},
		"no time":                {http.StatusTooManyRequests, "0", time.Second},
		"more than five minutes": {http.StatusServiceUnavailable, "3600", 5 * time.Minute},
		"a date":                 {http.StatusServiceUnavailable, "date", time.Minute},
		"with another status":    {http.StatusInternalServerError, "60", 0},
		"without":                {http.StatusServiceUnavailable, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
				var once sync.Once
				h.answer("/1", func(w http.ResponseWriter, _ *http.Request) {
					once.Do(func() {
						value := c.retryAfter
						if value == "date" {
							value = time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
						}
						if value != "" {
							w.Header().Set("Retry-After", value)
						}
						w.WriteHeader(c.status)
					})
				})
				start := time.Now()
				send(t, srv, track("first", 1))
				synctest.Wait()
				send(t, srv, track("others", 50))
				synctest.Wait()
				s := srv.Engine().Status()[0]
				if c.pause > 0 {
					assert.Equal(t, engine.DestinationHeld, s.State)
					assert.Equal(t, c.pause, s.HeldUntil.Sub(start))
				} else {
					assert.NotEqual(t, engine.DestinationHeld, s.State)
				}
				time.Sleep(3 * time.Hour)
				times := h.times("/1", start)
				require.Len(t, times, 52)
				assert.Equal(t, c.pause, times[1], "the second call")
				assert.EqualValues(t, 51, account(t, srv).Delivered)
				assert.Equal(t, engine.DestinationDelivering, srv.Engine().Status()[0].State)
			})
		})
	}
}

// During a pause that a receiver requested, a restarted collector and a second collector
// with the same store make no requests.
func TestRetryAfterSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}, Store: state.NewMemory()}
		srv, h := inProcess(t, config)
		_, other := inProcess(t, config)
		h.answer("/1", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		start := time.Now()
		send(t, srv, track("first", 3))
		synctest.Wait()
		time.Sleep(time.Minute)
		require.NoError(t, srv.Close())

		srv, h = inProcess(t, config)
		second, _ := inProcess(t, config)
		for name, s := range map[string]*mockserver.Server{"restarted": srv, "second": second} {
			send(t, s, track(name, 5))
			synctest.Wait()
			assert.Equal(t, 2*time.Minute, s.Engine().Status()[0].HeldUntil.Sub(start), name)
		}
		time.Sleep(time.Hour)
		times := h.times("/1", start)
		require.Len(t, times, 5)
		assert.Equal(t, 2*time.Minute, times[0])
		assert.Empty(t, other.times("/1", start))
	})
}

// If a receiver requests a pause from one collector, all collectors that share its store
// pause.
func TestRetryAfterAppliesToAllCollectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}, Store: state.NewMemory()}
		one, h := inProcess(t, config)
		two, other := inProcess(t, config)
		var pause sync.Once // a second 429 when the first pause ends would prolong it for both
		h.answer("/1", func(w http.ResponseWriter, _ *http.Request) {
			pause.Do(func() {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(http.StatusTooManyRequests)
			})
		})
		start := time.Now()
		send(t, one, track("first", 1))
		synctest.Wait()
		send(t, two, track("other", 5))
		synctest.Wait()
		time.Sleep(time.Hour)
		times := other.times("/1", start)
		require.Len(t, times, 5)
		assert.Equal(t, 2*time.Minute, times[0])
	})
}

// A pause applies only to the URLs that requested it.
func TestChangedURLsEndTheRetryAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}})
		h.answer("/1", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "300")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		send(t, srv, track("first", 1))
		synctest.Wait()
		send(t, srv, track("other", 1))
		synctest.Wait()
		start := time.Now()
		require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{hook("d", "http://h/2")}}))
		synctest.Wait()
		assert.Equal(t, []time.Duration{0}, h.times("/2", start))
	})
}

// If one URL accepts the call, another URL's Retry-After is ignored.
func TestSuccessfulURLIgnoresRetryAfterOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1", "http://h/2")}})
		h.answer("/1", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "300")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		for _, prefix := range []string{"a", "b", "c"} {
			send(t, srv, track(prefix, 5))
			synctest.Wait()
		}
		assert.EqualValues(t, 15, account(t, srv).Delivered)
		assert.Zero(t, srv.Engine().Status()[0].HeldUntil)
	})
}

// A 410 stops the destination and fails new calls, even after restarts. The destination
// continues after Resume, after it is disabled and enabled, or with another URL.
func TestGoneStopsTheDestination(t *testing.T) {
	for name, again := range map[string]func(*testing.T, *mockserver.Server){
		"resumed": func(t *testing.T, srv *mockserver.Server) {
			require.NoError(t, srv.Engine().Resume(t.Context(), "d"))
		},
		"disabled for a while": func(t *testing.T, srv *mockserver.Server) {
			off := hook("d", "http://h/1")
			off.Disabled = true
			for _, d := range []tracking.Destination{off, hook("d", "http://h/1")} {
				require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
			}
		},
		"given another URL for a while": func(t *testing.T, srv *mockserver.Server) {
			for _, url := range []string{"http://h/2", "http://h/1"} {
				require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{hook("d", url)}}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				store := state.NewMemory()
				config := engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}, Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				srv, h := inProcess(t, config)
				h.answer("/1", status(http.StatusGone))
				send(t, srv, track("m", 200))
				synctest.Wait()
				assert.EqualValues(t, 200, account(t, srv).Failed)
				requests := len(h.times("/1", time.Time{}))
				assert.LessOrEqual(t, requests, 200)
				s := srv.Engine().Status()[0]
				assert.Equal(t, engine.DestinationGone, s.State)
				assert.WithinDuration(t, time.Now(), s.GoneSince, time.Second)
				h.answer("/1", nil)
				send(t, srv, track("n", 20))
				synctest.Wait()
				assert.Len(t, h.times("/1", time.Time{}), requests, "no request is made any more")
				assert.EqualValues(t, 220, account(t, srv).Failed)
				require.NoError(t, srv.Close())
				assert.Equal(t, 1, strings.Count(log.String(), "destination stopped: its webhooks responded with 410 (Gone)"))

				srv, h = inProcess(t, config)
				assert.Equal(t, engine.DestinationGone, srv.Engine().Status()[0].State, "it is gone after a restart, too")
				send(t, srv, track("o", 2))
				synctest.Wait()
				assert.Empty(t, h.times("/1", time.Time{}))
				again(t, srv)
				n, err := srv.Engine().Replay(t.Context(), "d", engine.Selection{})
				require.NoError(t, err)
				assert.Equal(t, 2, n)
				synctest.Wait()
				assert.Len(t, h.times("/1", time.Time{}), 2)
				assert.Zero(t, srv.Engine().Status()[0].GoneSince)
				require.NoError(t, srv.Close())

				srv, _ = inProcess(t, config)
				assert.Equal(t, engine.DestinationIdle, srv.Engine().Status()[0].State, "nor does that come back")
			})
		})
	}
}

// The destination continues while one URL accepts calls or may still accept them.
func TestGoneRequiresAllURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1", "http://h/2")}})
		h.answer("/1", status(http.StatusGone))
		for i, answer := range []int{http.StatusOK, http.StatusBadRequest, http.StatusServiceUnavailable} {
			h.answer("/2", status(answer))
			send(t, srv, track(string(rune('a'+i)), 3))
			time.Sleep(5 * time.Hour)
			assert.Zero(t, srv.Engine().Status()[0].GoneSince, "%d", answer)
		}
		h.answer("/2", status(http.StatusGone))
		send(t, srv, track("z", 1))
		synctest.Wait()
		assert.NotZero(t, srv.Engine().Status()[0].GoneSince)
	})
}

// Rates set by the API and by the form are saved and displayed. The page can resume a
// destination that responded with 410.
func TestRatesByAPIAndForm(t *testing.T) {
	srv := mockserver.RunT(t)
	receiver := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	require.NoError(t, srv.Engine().AddDestination(t.Context(), hook("crm", receiver.URL)))
	status, shown := askAdmin(t, srv, "PATCH", "/destinations/crm", `{"maxPerSecond":0.5,"concurrency":8}`)
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, []any{0.5, 8.0}, []any{shown["maxPerSecond"], shown["concurrency"]})
	status, shown = askAdmin(t, srv, "PATCH", "/destinations/crm", `{"concurrency":-1}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, shown["message"], "concurrency: is -1")
	_, page := get(t, srv.URL+"/destination?name=crm")
	assert.Regexp(t, `name="maxPerSecond" value="0.5"`, page)
	assert.Regexp(t, `name="concurrency" value="8"`, page)

	form := url.Values{"name": {"crm"}, "new": {"false"}, "enabled": {"true"}, "url0": {receiver.URL}, "maxPerSecond": {"x"}, "concurrency": {"1.5"}}
	res, page := submit(t, srv.URL+"/destinations/save", form)
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	assert.Contains(t, page, "Maximum calls per second must be a number")
	assert.Contains(t, page, "Maximum concurrent requests must be a whole number")
	form["maxPerSecond"], form["concurrency"] = []string{"250"}, []string{""}
	res, _ = submit(t, srv.URL+"/destinations/save", form)
	require.Equal(t, http.StatusOK, res.StatusCode)
	d := srv.Engine().Settings().Destinations[0]
	assert.Equal(t, []any{250.0, 0}, []any{d.MaxPerSecond, d.Concurrency})

	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"u"}`)
	require.Eventually(t, func() bool { return srv.Engine().Status()[0].State == engine.DestinationGone }, time.Minute, 5*time.Millisecond)
	_, page = get(t, srv.URL+"/destination?name=crm")
	assert.Contains(t, page, "Its webhooks responded with 410 (Gone)")
	assert.Contains(t, page, `action="/destinations/resume"`)
	status, shown = askAdmin(t, srv, "POST", "/destinations/crm/resume", "")
	require.Equal(t, http.StatusOK, status)
	assert.NotContains(t, shown["status"], "goneSince")
}
