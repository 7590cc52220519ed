package analytics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	client "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/compat/v3"
	"github.com/seed-45eadc4a/analytics-go/internal/leaks"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

const key = "a-write-key-of-some-length"

// newServer starts a server that uses no network, so that synctest can run it.
func newServer(t *testing.T) *mockserver.Server {
	return mockserver.RunT(t, mockserver.Config{InProcess: true})
}

// newClient returns a client for a server of newServer.
func newClient(t *testing.T, srv *mockserver.Server, config analytics.Config) analytics.Client {
	config.Endpoint = srv.URL
	if config.Transport == nil {
		config.Transport = srv.Client().Transport
	}
	if config.Logger == nil {
		config.Logger = new(lines)
	}
	c, err := analytics.NewWithConfig(key, config)
	require.NoError(t, err)
	return c
}

// lines is a Logger that records its lines.
type lines struct {
	mu           sync.Mutex
	infos, wrong []string
}

func (l *lines) Logf(format string, args ...interface{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.infos = append(l.infos, fmt.Sprintf(format, args...))
}

func (l *lines) Errorf(format string, args ...interface{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// outcomes is a Callback that records the delivered and the lost messages.
type outcomes struct {
	mu        sync.Mutex
	delivered []analytics.Message
	failed    []analytics.Message
	errs      []error
}

func (e *outcomes) Success(m analytics.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.delivered = append(e.delivered, m)
}

func (e *outcomes) Failure(m analytics.Message, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = append(e.failed, m)
	e.errs = append(e.errs, err)
}

func track(i int) analytics.Track { return analytics.Track{UserId: fmt.Sprint("u", i), Event: "e"} }

func TestInvalidConfigs(t *testing.T) {
	for field, config := range map[string]analytics.Config{
		"Interval":   {Interval: -time.Second},
		"BatchSize":  {BatchSize: -1},
		"MaxRetries": {MaxRetries: -1},

		"MaxTotalBackoffDuration": {MaxTotalBackoffDuration: -1},
		"MaxRateLimitDuration":    {MaxRateLimitDuration: -1},
		"ShutdownTimeout":         {ShutdownTimeout: -1},
		"Endpoint":                {Endpoint: "://localhost:80"},
		"DefaultContext":          {DefaultContext: &analytics.Context{Extra: map[string]interface{}{"f": func() {}}}},
	} {
		c, err := analytics.NewWithConfig(key, config)
		require.Nil(t, c, field)
		refused, ok := err.(analytics.ConfigError) //nolint:errorlint // as programs look at it
		require.True(t, ok, field)
		require.Equal(t, field, refused.Field)
		require.Contains(t, err.Error(), "analytics.Config."+field)
	}
	_, err := analytics.NewWithConfig(key, analytics.Config{Endpoint: "localhost:80"})
	require.ErrorContains(t, err, `Endpoint "localhost:80" is not an http or https URL with a host`)
	_, err = analytics.NewWithConfig(key, analytics.Config{Interval: -time.Second})
	require.EqualError(t, err, "analytics.NewWithConfig: negative time intervals are not supported (analytics.Config.Interval: -1000000000)")
}

func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("ä", 50_000)
	cycle := map[string]interface{}{}
	cycle["v"] = cycle
	for title, config := range map[string]analytics.Config{
		"Endpoint":       {Endpoint: long},
		"port":           {Endpoint: "http://host:" + long},
		"DefaultContext": {DefaultContext: &analytics.Context{Extra: map[string]interface{}{long: make(chan int)}}},
		"cycle":          {DefaultContext: &analytics.Context{Extra: cycle}},
	} {
		_, err := analytics.NewWithConfig(key, config)
		require.ErrorAs(t, err, new(analytics.ConfigError), title)
		requireClipped(t, err)
	}
	for _, v := range []interface{}{long, []string{long}, cycle, struct{ V string }{long}} {
		requireClipped(t, analytics.FieldError{Type: "analytics.Track", Name: "Event", Value: v})
		requireClipped(t, analytics.ConfigError{Reason: "r", Field: "f", Value: v})
	}
}

// requireClipped checks that an error quotes at most 200 bytes of non-ASCII input.
func requireClipped(t *testing.T, err error) {
	t.Helper()
	require.LessOrEqual(t, strings.Count(err.Error(), "ä")*len("ä"), 200)
	require.Less(t, len(err.Error()), 600)
	require.True(t, utf8.ValidString(err.Error()))
}

func TestUnsupportedValues(t *testing.T) {
	c := newClient(t, newServer(t), analytics.Config{})
	enqueue := func(v interface{}) error {
		return c.Enqueue(analytics.Track{UserId: "u", Event: "e", Properties: analytics.NewProperties().Set("v", v)})
	}
	require.ErrorAs(t, enqueue([]interface{}{math.NaN()}), new(*json.UnsupportedValueError))
	require.ErrorAs(t, enqueue(func() {}), new(*json.UnsupportedTypeError))
	nowhere := &analytics.Context{Location: analytics.LocationInfo{Latitude: math.NaN()}}
	err := c.Enqueue(analytics.Track{UserId: "u", Event: "e", Context: nowhere})
	require.ErrorAs(t, err, new(*json.UnsupportedValueError))
	require.NoError(t, c.Close())
}

func TestIncompleteMessages(t *testing.T) {
	srv := mockserver.RunT(t)
	var e outcomes
	c, err := analytics.NewWithConfig(key, analytics.Config{Endpoint: srv.URL, Callback: &e})
	require.NoError(t, err)
	for _, tt := range []struct {
		message analytics.Message
		want    error
		text    string
	}{
		{analytics.Alias{PreviousId: "p"}, analytics.FieldError{"analytics.Alias", "UserId", ""}, `analytics.Alias.UserId: invalid field value: ""`},
		{analytics.Alias{UserId: "u"}, analytics.FieldError{"analytics.Alias", "PreviousId", ""}, ""},
		{analytics.Group{UserId: "u"}, analytics.FieldError{"analytics.Group", "GroupId", ""}, ""},
		{analytics.Group{GroupId: "g"}, analytics.FieldError{"analytics.Group", "UserId", ""}, ""},
		{&analytics.Identify{}, analytics.FieldError{"analytics.Identify", "UserId", ""}, ""},
		{analytics.Page{Name: "n"}, analytics.FieldError{"analytics.Page", "UserId", ""}, ""},
		{analytics.Screen{Name: "n"}, analytics.FieldError{"analytics.Screen", "UserId", ""}, ""},
		{analytics.Track{UserId: "u"}, analytics.FieldError{"analytics.Track", "Event", ""}, ""},
		{&analytics.Track{Event: "e"}, analytics.FieldError{"analytics.Track", "UserId", ""}, ""},
		{(*analytics.Track)(nil), nil, "analytics: the message is nil: *analytics.Track"},
		{(*analytics.Alias)(nil), nil, "analytics: the message is nil: *analytics.Alias"},
		{nil, nil, "analytics: the message is nil: <nil>"},
		{event{"type": "track"}, analytics.FieldError{"analytics.Track", "Event", ""}, ""},
		{event{"type": "alias", "userId": "u", "previousId": "p"}, nil, "messages with custom types cannot be enqueued: analytics_test.event"},
	} {
		err := c.Enqueue(tt.message)
		if tt.want != nil {
			require.Equal(t, tt.want, err)
		}
		if tt.text != "" {
			require.EqualError(t, err, tt.text)
		}
	}
	require.NoError(t, c.Close())
	require.Empty(t, e.failed, "the callback is not called")
	require.Empty(t, srv.Calls())
}

// event is a custom message.
type event map[string]interface{}

func (e event) Validate() error { return analytics.ValidateFields(e) }

func (e event) GetField(field string) (interface{}, bool) {
	value, ok := e[field]
	return value, ok
}

func TestValidateFields(t *testing.T) {
	for _, tt := range []struct {
		fields event
		want   error
	}{
		{event{"type": "alias", "userId": "u", "previousId": "p"}, nil},
		{event{"type": "alias", "userId": "u"}, analytics.FieldError{"analytics.Alias", "PreviousId", ""}},
		{event{"type": "group", "anonymousId": "a", "groupId": "g"}, nil},
		{event{"type": "group", "userId": "u"}, analytics.FieldError{"analytics.Group", "GroupId", ""}},
		{event{"type": "identify", "userId": "u"}, nil},
		{event{"type": "identify", "userId": 7}, analytics.FieldError{"analytics.Identify", "UserId", ""}},
		{event{"type": "page", "anonymousId": "a"}, nil},
		{event{"type": "page"}, analytics.FieldError{"analytics.Page", "UserId", ""}},
		{event{"type": "screen", "userId": "u"}, nil},
		{event{"type": "screen"}, analytics.FieldError{"analytics.Screen", "UserId", ""}},
		{event{"type": "track", "userId": "u", "event": "e"}, nil},
		{event{"type": "track", "userId": "u"}, analytics.FieldError{"analytics.Track", "Event", ""}},
		{event{"userId": "u"}, analytics.FieldError{"analytics.Event", "Type", nil}},
		{event{"type": "other"}, analytics.FieldError{"analytics.Event", "Type", "other"}},
		{event{"type": 7}, analytics.FieldError{"analytics.Event", "Type", 7}},
	} {
		require.Equal(t, tt.want, analytics.ValidateFields(tt.fields), "%v", tt.fields)
	}
}

func TestCloseTwice(t *testing.T) {
	c := analytics.New(key)
	require.NoError(t, c.Close())
	require.True(t, c.Close() == analytics.ErrClosed)
	require.True(t, c.Enqueue(track(0)) == analytics.ErrClosed)
}

func TestCloseConcurrentSafe(t *testing.T) {
	srv := mockserver.RunT(t)
	var e outcomes
	c, err := analytics.NewWithConfig(key, analytics.Config{Endpoint: srv.URL, BatchSize: 7, Callback: &e})
	require.NoError(t, err)
	var group sync.WaitGroup
	var accepted, closes atomic.Int64
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	for range 4 {
		group.Go(func() {
			for i := range 20_000 { // the memory is large enough for these messages
				if err := c.Enqueue(track(i)); err != nil {
					assert.Equal(t, analytics.ErrClosed, err)
					return
				}
				if accepted.Add(1); i == 50 {
					begin()
				}
			}
		})
	}
	for range 2 {
		group.Go(func() {
			<-begun
			if c.Close() == nil {
				closes.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, closes.Load())
	require.Len(t, e.delivered, int(accepted.Load()))
	require.Len(t, srv.Calls(), int(accepted.Load()))
}

// Close retries batches during an outage. Version 3 loses batches that fail once during Close.
func TestCloseRetriesDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		srv.Fail(mockserver.Fault{Status: http.StatusServiceUnavailable, Times: 5}, mockserver.Fault{Reset: true, Times: 2})
		var e outcomes
		c := newClient(t, srv, analytics.Config{Callback: &e})
		for i := range 100 {
			require.NoError(t, c.Enqueue(track(i)))
		}
		require.NoError(t, c.Close())
		require.Len(t, srv.Calls(), 100)
		require.Len(t, e.delivered, 100)
		require.Empty(t, e.failed)
	})
}

// Close leaves no goroutines, connections or files.
func TestCloseReleasesResources(t *testing.T) {
	for name, config := range map[string]analytics.Config{
		"defaults":           {},
		"callback":           {Callback: &outcomes{}},
		"callback of a flaw": {Callback: &odd{}},
		"retries":            {RetryAfter: func(int) time.Duration { return 0 }},
	} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", collector hangs ", hangs), func(t *testing.T) {
				srv := mockserver.RunT(t)
				leaks.Check(t)
				srv.Fail(mockserver.Fault{Status: http.StatusServiceUnavailable})
				if hangs {
					srv.Fail(mockserver.Fault{Hang: true, Times: mockserver.Always})
					config.ShutdownTimeout = 50 * time.Millisecond
				}
				config.Endpoint, config.Logger = srv.URL, new(lines)
				c, err := analytics.NewWithConfig(key, config)
				require.NoError(t, err)
				if o, ok := config.Callback.(*odd); ok {
					o.client = c
				}
				require.Error(t, c.Enqueue(analytics.Track{UserId: "u", Event: "bad", Properties: analytics.Properties{"f": func() {}}}))
				require.NoError(t, c.Enqueue(track(0)))
				require.Equal(t, hangs, c.Close() != nil)
			})
		}
	}
}

func TestShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		srv.Fail(mockserver.Fault{Hang: true, Times: mockserver.Always})
		var e outcomes
		c := newClient(t, srv, analytics.Config{Callback: &e, ShutdownTimeout: 3 * time.Second})
		require.NoError(t, c.Enqueue(track(0)))
		start := time.Now()
		err := c.Close()
		undelivered := (*client.UndeliveredError)(nil)
		require.ErrorAs(t, err, &undelivered)
		require.EqualValues(t, 1, undelivered.Calls())
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Len(t, e.failed, 1)
		require.Equal(t, "u0", e.failed[0].(analytics.Track).UserId)
		dropped := (*client.DropError)(nil)
		require.ErrorAs(t, e.errs[0], &dropped)
		require.Equal(t, client.DropShutdown, dropped.Reason)
	})
}

func TestMaxRetriesAndRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		var attempts atomic.Int64
		srv.Fail(mockserver.Fault{Status: http.StatusBadGateway, Times: mockserver.Always, Match: func(*http.Request) bool {
			attempts.Add(1)
			return true
		}})
		var asked []int
		var e outcomes
		c := newClient(t, srv, analytics.Config{
			Callback:   &e,
			BatchSize:  1,
			MaxRetries: 3,
			RetryAfter: func(retries int) time.Duration {
				asked = append(asked, retries)
				return time.Duration(retries-1) * time.Hour // the first delay is negative
			},
		})
		start := time.Now()
		require.NoError(t, c.Enqueue(track(0)))
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		require.EqualValues(t, 4, attempts.Load())
		require.Equal(t, []int{0, 1, 2}, asked)
		require.Len(t, e.failed, 1)
		require.ErrorContains(t, c.Close(), "1 call not delivered")
		require.Equal(t, 4*time.Hour, time.Since(start))
	})
}

func TestRetryAfterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		srv.Fail(mockserver.Fault{Status: http.StatusBadGateway})
		var log lines
		c := newClient(t, srv, analytics.Config{Logger: &log, RetryAfter: func(int) time.Duration { panic("ouch") }})
		require.NoError(t, c.Enqueue(track(0)))
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Len(t, srv.Calls(), 1)
		require.Contains(t, log.wrong, "backoff panicked panic=ouch")
	})
}

// Enqueue returns an error for a message that is not queued. Version 3 returns nil and only calls the
// callback.
func TestEnqueueErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		var e outcomes
		var log lines
		c := newClient(t, srv, analytics.Config{Callback: &e, Logger: &log})
		require.NoError(t, c.Enqueue(analytics.Track{UserId: "u", Event: "fits", Properties: analytics.Properties{"x": strings.Repeat("x", 32_500)}}))

		err := c.Enqueue(analytics.Track{UserId: "u", Event: "big", Properties: analytics.Properties{"x": strings.Repeat("x", 33_000)}})
		require.ErrorIs(t, err, analytics.ErrMessageTooBig)
		large := (*client.TooLargeError)(nil)
		require.ErrorAs(t, err, &large)
		require.Equal(t, "properties", large.Field)
		synctest.Wait()
		require.True(t, e.errs[0] == analytics.ErrMessageTooBig)
		require.Equal(t, "big", e.failed[0].(analytics.Track).Event)

		err = c.Enqueue(analytics.Identify{UserId: "u", Traits: analytics.Traits{"f": func() {}}})
		unsupported := (*json.UnsupportedTypeError)(nil)
		require.ErrorAs(t, err, &unsupported)
		require.Contains(t, err.Error(), "traits.f")
		synctest.Wait()
		require.Equal(t, err, e.errs[1])

		err = c.Enqueue(analytics.Page{UserId: "u", Context: &analytics.Context{Location: analytics.LocationInfo{Speed: math.NaN()}}})
		require.ErrorContains(t, err, "context.location")
		err = c.Enqueue(analytics.Page{UserId: "u", Context: &analytics.Context{IP: net.IP{1, 2}}})
		require.ErrorContains(t, err, "context.ip")
		err = c.Enqueue(analytics.Page{UserId: "u", Timestamp: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)})
		require.ErrorContains(t, err, "timestamp")

		require.NoError(t, c.Close())
		require.Len(t, e.failed, 5)
		require.Len(t, log.wrong, 5)
		require.Len(t, e.delivered, 1)
		require.Len(t, srv.Calls(), 1)
	})
}

// The client limits its memory. Version 3 does not.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 32 MiB")
	}
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		srv.Fail(mockserver.Fault{Hang: true, Times: mockserver.Always})
		var e outcomes
		c := newClient(t, srv, analytics.Config{Callback: &e, ShutdownTimeout: time.Second})
		large := analytics.Track{UserId: "u", Event: "e", Properties: analytics.Properties{"x": strings.Repeat("x", 32_000)}}
		var err error
		accepted := 0
		for ; err == nil && accepted < 5000; accepted++ {
			err = c.Enqueue(large)
		}
		require.ErrorIs(t, err, analytics.ErrTooManyRequests)
		require.ErrorIs(t, err, client.ErrQueueFull)
		require.Greater(t, accepted, 900)
		synctest.Wait()
		require.True(t, e.errs[0] == analytics.ErrTooManyRequests)
		require.Error(t, c.Close())
		require.Len(t, e.failed, accepted)
	})
}

// The client also limits the memory of messages that wait for the callback.
func TestBlockedCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		s := stuck{release: make(chan struct{})}
		c := newClient(t, srv, analytics.Config{Callback: &s, ShutdownTimeout: time.Second})
		bad := analytics.Track{UserId: "u", Event: "e", Properties: analytics.Properties{"f": func() {}}}
		for range 1100 {
			require.Error(t, c.Enqueue(bad))
		}
		synctest.Wait()
		require.EqualValues(t, 1000, s.waiting.Load())
		start := time.Now()
		require.NoError(t, c.Close())
		require.Equal(t, time.Second, time.Since(start))
		close(s.release)
	})
}

type stuck struct {
	waiting atomic.Int64
	release chan struct{}
}

func (s *stuck) Success(analytics.Message) {}
func (s *stuck) Failure(analytics.Message, error) {
	s.waiting.Add(1)
	<-s.release
}

func TestCallbackGetsTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		srv.Fail(mockserver.Fault{Status: http.StatusUnauthorized, Times: 1})
		var e outcomes
		c := newClient(t, srv, analytics.Config{Callback: &e, BatchSize: 6})
		now := time.Now()
		at := now.Add(-time.Hour)
		messages := []analytics.Message{
			&analytics.Alias{PreviousId: "p", UserId: "u"},
			analytics.Group{GroupId: "g", UserId: "u"},
			analytics.Identify{UserId: "u"},
			analytics.Page{UserId: "u"},
			&analytics.Screen{UserId: "u"},
			analytics.Track{UserId: "u", Event: "e", MessageId: "m", Timestamp: at, Properties: analytics.Properties{"a": 1}},
		}
		for range 2 {
			for _, m := range messages {
				require.NoError(t, c.Enqueue(m))
			}
			synctest.Wait()
		}
		require.Error(t, c.Close())
		require.Len(t, e.failed, 6)
		require.Len(t, e.delivered, 6)
		alias := e.delivered[0].(analytics.Alias)
		require.Equal(t, "alias", alias.Type)
		require.Equal(t, now, alias.Timestamp)
		call, ok := srv.Call(alias.MessageId)
		require.True(t, ok)
		require.Equal(t, "alias", call.Call.Type)
		require.Equal(t, "group", e.delivered[1].(analytics.Group).Type)
		require.Equal(t, "identify", e.delivered[2].(analytics.Identify).Type)
		require.Equal(t, "page", e.delivered[3].(analytics.Page).Type)
		require.Equal(t, "screen", e.delivered[4].(analytics.Screen).Type)
		require.Equal(t, analytics.Track{Type: "track", UserId: "u", Event: "e", MessageId: "m", Timestamp: at, Properties: analytics.Properties{"a": 1}}, e.delivered[5])
		require.Equal(t, e.delivered[5], e.failed[5])
		require.Empty(t, messages[0].(*analytics.Alias).MessageId, "the caller's message is not modified")
	})
}

// The callback receives messages with the same ID in order.
func TestCallbackOrderWithSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		var e outcomes
		c := newClient(t, srv, analytics.Config{Callback: &e})
		for i := range 3 {
			require.NoError(t, c.Enqueue(analytics.Track{MessageId: "same", UserId: fmt.Sprint(i), Event: "e"}))
		}
		require.ErrorIs(t, c.Enqueue(analytics.Track{MessageId: "same", UserId: strings.Repeat("x", 33_000), Event: "e"}), analytics.ErrMessageTooBig)
		require.NoError(t, c.Close())
		require.Len(t, e.failed, 1)
		require.Len(t, e.delivered, 3)
		for i, m := range e.delivered {
			require.Equal(t, fmt.Sprint(i), m.(analytics.Track).UserId)
		}
	})
}

// Callbacks may enqueue messages, panic, and wait for the caller of Enqueue.
func TestCallbackEnqueuesAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		var log lines
		o := &odd{}
		c := newClient(t, srv, analytics.Config{Callback: o, Logger: &log, BatchSize: 1})
		o.client = c
		o.mu.Lock()
		require.Error(t, c.Enqueue(analytics.Track{UserId: "u", Event: "bad", Properties: analytics.Properties{"f": func() {}}}))
		require.NoError(t, c.Enqueue(analytics.Track{UserId: "u", Event: "good"}))
		o.mu.Unlock()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.Len(t, srv.Calls(mockserver.OfEvent("again")), 2)
		var panics int
		for _, line := range log.wrong {
			if strings.Contains(line, "ouch") {
				panics++
			}
		}
		require.Equal(t, 4, panics, "%q", log.wrong)
	})
}

type odd struct {
	mu     sync.Mutex
	client analytics.Client
}

func (o *odd) Success(m analytics.Message)            { o.end(m) }
func (o *odd) Failure(m analytics.Message, err error) { o.end(m) }

func (o *odd) end(m analytics.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.(analytics.Track).Event != "again" {
		_ = o.client.Enqueue(analytics.Track{UserId: "u", Event: "again"})
	}
	panic("ouch")
}

// The caller may modify a message after Enqueue has returned.
func TestMessagesCanBeReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		c := newClient(t, srv, analytics.Config{})
		m := &analytics.Track{UserId: "u", Properties: analytics.Properties{}, Context: &analytics.Context{Traits: analytics.Traits{}}}
		for i := range 50 {
			m.Event = fmt.Sprint("event ", i)
			m.Properties["i"] = i
			m.Context.Locale, m.Context.App.Name, m.Context.Traits["i"] = fmt.Sprint(i), fmt.Sprint(i), i
			require.NoError(t, c.Enqueue(m))
		}
		require.NoError(t, c.Close())
		for i := range 50 {
			srv.Expect(t, mockserver.OfEvent(fmt.Sprint("event ", i)), mockserver.Like(fmt.Sprintf(
				`{"properties":{"i":%d},"context":{"locale":"%d","app":{"name":"%d"},"traits":{"i":%d}}}`, i, i, i, i)))
		}
	})
}

func TestLoggerGetsLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		srv.Fail(mockserver.Fault{Status: http.StatusBadGateway, Body: "no " + key})
		var log lines
		c := newClient(t, srv, analytics.Config{Logger: &log, Verbose: true})
		require.NoError(t, c.Enqueue(track(0)))
		require.NoError(t, c.Close())
		require.Equal(t, []string{`collector is not taking calls status=502 error="the collector responded with 502 Bad Gateway: no a-w***"`}, log.wrong)
		require.Len(t, log.infos, 4)
		require.Contains(t, log.infos[0], "call queued type=track call=")
		require.Contains(t, log.infos[0], `\"event\":\"e\"`)
		require.Contains(t, log.infos[1], "attempt failed")
		require.NotContains(t, log.infos[1], key)
		require.Contains(t, log.infos[2], "batch delivered")
		require.Contains(t, log.infos[3], "collector is taking calls again")

		log = lines{}
		srv.Fail(mockserver.Fault{Status: http.StatusUnauthorized})
		c = newClient(t, srv, analytics.Config{Logger: &log})
		require.NoError(t, c.Enqueue(track(0)))
		require.Error(t, c.Close())
		require.Empty(t, log.infos)
		require.Len(t, log.wrong, 1)
		require.Contains(t, log.wrong[0], "calls lost calls=1 reason=refused")
	})
}

type panicking struct{}

func (panicking) Logf(string, ...interface{})   { panic("ouch") }
func (panicking) Errorf(string, ...interface{}) { panic("ouch") }

func TestLoggerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		c := newClient(t, srv, analytics.Config{Logger: panicking{}, Verbose: true})
		require.NoError(t, c.Enqueue(track(0)))
		require.Error(t, c.Enqueue(analytics.Track{UserId: "u", Event: "e", Properties: analytics.Properties{"f": func() {}}}))
		require.NoError(t, c.Close())
		require.Len(t, srv.Calls(), 1)
	})
}

func TestStdLogger(t *testing.T) {
	var out bytes.Buffer
	l := analytics.StdLogger(log.New(&out, "app ", 0))
	l.Logf("%d calls", 3)
	l.Errorf("no %s", "100%")
	require.Equal(t, "app INFO: 3 calls\napp ERROR: no 100%\n", out.String())
}

// The client appends the batch path to the endpoint, with or without a slash at the end.
func TestEndpoints(t *testing.T) {
	for _, path := range []string{"", "/", "/proxy", "/proxy/batch", "/v1/import/"} {
		synctest.Test(t, func(t *testing.T) {
			var got string
			c, err := analytics.NewWithConfig(key, analytics.Config{
				Endpoint: "http://collector.example.com" + path,
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					got = r.URL.String()
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				}),
			})
			require.NoError(t, err)
			require.NoError(t, c.Enqueue(track(0)))
			require.NoError(t, c.Close())
			require.Equal(t, "http://collector.example.com"+strings.TrimRight(path, "/")+"/v1/batch", got)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		c := newClient(t, srv, analytics.Config{})
		start := time.Now()
		require.NoError(t, c.Enqueue(track(0)))
		srv.Within(time.Minute).Expect(t)
		require.Equal(t, analytics.DefaultInterval, time.Since(start))
		for i := range analytics.DefaultBatchSize {
			require.NoError(t, c.Enqueue(track(i)))
		}
		synctest.Wait()
		require.Len(t, srv.Calls(), 1+analytics.DefaultBatchSize, "a full batch is sent immediately")
		require.Equal(t, analytics.DefaultInterval, time.Since(start))
		require.NoError(t, c.Close())
	})
	require.Equal(t, "https://api.segment.io", analytics.DefaultEndpoint)
}

func TestDefaultContextIsNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		given := &analytics.Context{App: analytics.AppInfo{Name: "shop"}, Library: analytics.LibraryInfo{Name: "mine"}}
		c := newClient(t, srv, analytics.Config{DefaultContext: given})
		given.App.Name = "changed"
		require.NoError(t, c.Enqueue(track(0)))
		require.NoError(t, c.Close())
		srv.Expect(t, mockserver.Like(`{"context":{"app":{"name":"shop"},"library":{"name":"analytics-go"}}}`))
		require.Equal(t, "mine", given.Library.Name)
	})
}

func TestNoWriteKey(t *testing.T) {
	var e outcomes
	c, err := analytics.NewWithConfig(" ", analytics.Config{Callback: &e, Logger: new(lines)})
	require.NoError(t, err)
	require.Equal(t, analytics.FieldError{"analytics.Track", "Event", ""}, c.Enqueue(analytics.Track{UserId: "u"}))
	require.ErrorContains(t, c.Enqueue(track(0)), "the write key is empty")
	require.NoError(t, c.Close())
	require.Len(t, e.failed, 1)
	require.True(t, errors.Is(c.Enqueue(track(0)), analytics.ErrClosed))
}

// New cannot return an error. If the write key is invalid, Enqueue returns one.
func TestNewWithAMalformedWriteKey(t *testing.T) {
	for writeKey, want := range map[string]string{
		"":             "the write key is empty",
		"key-from-x\n": "the write key ends with a line break",
		" key":         "the write key begins with white space",
		"key\t":        "the write key ends with white space",
		"k\xff":        "the write key is not UTF-8",
		"k\x00y":       "the write key contains U+0000",
	} {
		c := analytics.New(writeKey)
		require.NotNil(t, c, "%q", writeKey)
		if writeKey != "" {
			_, err := analytics.NewWithConfig(writeKey, analytics.Config{})
			require.EqualError(t, err, c.Enqueue(track(0)).Error())
		}
		require.ErrorContains(t, c.Enqueue(track(0)), want)
		require.NoError(t, c.Close())
	}
}
