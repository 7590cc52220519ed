package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// asCommand is an environment variable. If it is set, the test binary runs the command.
const asCommand = "E2ECLI_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	if err := flag.Set("test.parallel", "50"); err != nil { // the tests run in parallel, because most of them wait for a retry
		panic(err)
	}
	os.Exit(m.Run())
}

type object = map[string]any

// command runs the command as a process and checks that the exit status matches the output. It
// returns the output and the log.
func command(t *testing.T, stdin string, args ...string) (output, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var out output
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &out), "%s %s", stdout.String(), stderr.String())
	require.Equal(t, out.Success, err == nil)
	require.Equal(t, out.Success, out.Error == "")
	return out, stderr.String()
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// scenario is one run of the command with a test server.
type scenario struct {
	srv    *mockserver.Server
	input  object
	mu     sync.Mutex
	counts []string // X-Retry-Count of each request that contains calls, or "" if missing
	at     []time.Time
}

// newScenario returns a scenario that sends one track call.
func newScenario(t *testing.T, config mockserver.Config) *scenario {
	t.Helper()
	s := &scenario{srv: mockserver.RunT(t, config)}
	s.input = object{
		"writeKey": "k", "apiHost": s.srv.URL, "config": object{"flushAt": 1, "timeout": 120},
		"sequences": []object{{"delayMs": 0, "events": []object{event("one")}}},
	}
	s.srv.Fail(mockserver.Fault{Times: mockserver.Always, Status: 500, Match: func(r *http.Request) bool {
		if r.Method == http.MethodPost {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counts = append(s.counts, r.Header.Get("X-Retry-Count"))
			s.at = append(s.at, time.Now())
		}
		return false // never match, because this fault only records the request
	}})
	return s
}

func event(name string) object {
	return object{"type": "track", "event": name, "userId": "u", "messageId": name}
}

func (s *scenario) configure(name string, value any) { s.input["config"].(object)[name] = value }

// fail sets the response to the next requests.
func (s *scenario) fail(status, times int, header http.Header) {
	s.srv.Fail(mockserver.Fault{Status: status, Times: times, Header: header})
}

func (s *scenario) run(t *testing.T) output {
	t.Helper()
	out, stderr := command(t, "", "--input", encode(t, s.input))
	t.Log(stderr)
	return out
}

func TestBasic(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	context := object{"ip": "192.0.2.1", "app": object{"name": "shop"}}
	common := func(o object) object {
		o["context"], o["integrations"], o["timestamp"] = context, object{"All": false, "Webhooks": true}, "2024-02-29T12:00:00.123Z"
		o["messageId"] = o["type"]
		return o
	}
	s.input["sequences"] = []object{{"events": []object{
		common(object{"type": "identify", "userId": "u", "traits": object{"plan": "pro"}}),
		common(object{"type": "track", "event": "Bought", "anonymousId": "a", "properties": object{"cents": json.Number("9007199254740993")}}),
		common(object{"type": "page", "userId": "u", "name": "Home", "category": "Nav", "properties": object{"path": "/"}}),
		common(object{"type": "screen", "userId": "u", "name": "Main", "properties": object{"variation": "blue"}}),
		common(object{"type": "alias", "userId": "new", "previousId": "u"}),
		common(object{"type": "group", "userId": "u", "groupId": "g", "traits": object{"seats": 7}}),
	}}}
	s.configure("flushAt", 15)
	require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
	require.Empty(t, s.srv.Rejections())
	require.Equal(t, []string{""}, s.counts)
	for id, want := range map[string]object{
		"identify": {"userId": "u", "traits": object{"plan": "pro"}},
		"track":    {"anonymousId": "a", "event": "Bought", "properties": object{"cents": json.Number("9007199254740993")}},
		"page":     {"userId": "u", "name": "Home", "category": "Nav", "properties": object{"path": "/"}},
		"screen":   {"userId": "u", "name": "Main", "properties": object{"variation": "blue"}},
		"alias":    {"userId": "new", "previousId": "u"},
		"group":    {"userId": "u", "groupId": "g", "traits": object{"seats": json.Number("7")}},
	} {
		record, ok := s.srv.Call(id)
		require.True(t, ok, id)
		decoder := json.NewDecoder(bytes.NewReader(record.Call.Body))
		decoder.UseNumber()
		var got object
		require.NoError(t, decoder.Decode(&got))
		want["type"], want["messageId"] = id, id
		want["integrations"] = object{"All": false, "Webhooks": true}
		want["originalTimestamp"] = "2024-02-29T12:00:00.123Z"
		for name, value := range want {
			require.Equal(t, value, got[name], "%s: %s", id, name)
		}
		require.Equal(t, "192.0.2.1", got["context"].(object)["ip"])
		require.Contains(t, got["context"], "library")
	}
}

func TestBatchesAndDelays(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	events := func(prefix string, n int) (all []object) {
		for i := range n {
			all = append(all, event(fmt.Sprintf("%s%d", prefix, i)))
		}
		return all
	}
	s.input["sequences"] = []object{{"events": events("a", 4)}, {"delayMs": 300, "events": events("b", 5)}, {"events": []object{}}}
	s.configure("flushAt", 2)
	s.configure("flushInterval", 60_000)
	require.Equal(t, output{Success: true, SentBatches: 5}, s.run(t))
	s.srv.ExpectN(t, 9)
	a, _ := s.srv.Call("a3")
	b, _ := s.srv.Call("b0")
	require.GreaterOrEqual(t, b.Call.OriginalTimestamp.Sub(a.Call.OriginalTimestamp), 300*time.Millisecond)
}

func TestInput(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	out, _ := command(t, encode(t, s.input)) // without arguments, the command reads standard input
	require.Equal(t, output{Success: true, SentBatches: 1}, out)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"nothing":      {nil, "invalid input: unexpected end of JSON input"},
		"not JSON":     {[]string{"--input", "x"}, "invalid input: invalid character"},
		"not a flag":   {[]string{"--inputs", "x"}, "flag provided but not defined"},
		"an argument":  {[]string{"x"}, `unexpected argument "x"; use --input`},
		"no write key": {[]string{"--input", `{}`}, "the write key is empty"},
		"no URL":       {[]string{"--input", `{"writeKey":"k","apiHost":"x"}`}, `Endpoint "x" is not an http or https URL`},
		"a type":       {[]string{"--input", `{"writeKey":"k","sequences":[{"events":[{"type":"click"}]}]}`}, `event 0: unknown type "click"`},
		"no event":     {[]string{"--input", `{"writeKey":"k","sequences":[{"events":[{"type":"track","userId":"u"}]}]}`}, `event 0: You must pass 'event'.`},
		"no text":      {[]string{"--input", `{"writeKey":"k","sequences":[{"events":[{"type":"track","event":3}]}]}`}, "cannot unmarshal number"},
	} {
		out, _ := command(t, "", tt.args...)
		require.Contains(t, out.Error, tt.want, name)
		require.Zero(t, out.SentBatches)
	}
}

// An invalid event does not prevent the delivery of the other events.
func TestOneWrongEvent(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	s.input["sequences"] = []object{{"events": []object{event("a"), {"type": "track", "userId": "u"}, event("b")}}}
	out := s.run(t)
	require.Contains(t, out.Error, "event 1: You must pass 'event'.")
	require.EqualValues(t, 2, out.SentBatches)
	s.srv.ExpectN(t, 2)
}

func TestRetry(t *testing.T) {
	for _, status := range []int{408, 410, 429, 460, 500, 502, 503, 504, 508, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, mockserver.Config{})
			s.fail(status, 1, nil)
			require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
			require.Equal(t, []string{"", "1"}, s.counts)
			require.GreaterOrEqual(t, s.at[1].Sub(s.at[0]), 375*time.Millisecond)
			record, _ := s.srv.Call("one")
			require.Equal(t, 1, record.RetryCount)
			require.Zero(t, record.Repeats)
		})
	}
}

func TestNoRetry(t *testing.T) {
	for _, status := range []int{300, 301, 302, 307, 400, 401, 403, 404, 413, 418, 422, 501, 505, 511} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, mockserver.Config{})
			s.fail(status, 1, http.Header{"Retry-After": {"1"}})
			out := s.run(t)
			require.Contains(t, out.Error, fmt.Sprint("responded with ", status))
			require.Zero(t, out.SentBatches)
			require.Equal(t, []string{""}, s.counts)
		})
	}
}

func TestRetriesCountUp(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	s.fail(503, 1, nil)
	s.srv.Fail(mockserver.Fault{Reset: true})
	s.fail(408, 1, nil)
	require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
	require.Equal(t, []string{"", "1", "2", "3"}, s.counts)
	for i, least := range []time.Duration{375, 750, 1500} {
		require.GreaterOrEqual(t, s.at[i+1].Sub(s.at[i]), least*time.Millisecond, "the waits double")
	}
}

func TestRetriesAreUsedUp(t *testing.T) {
	for retries, want := range map[int][]string{0: {""}, 1: {"", "1"}, 2: {"", "1", "2"}} {
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, mockserver.Config{})
			s.fail(500, mockserver.Always, nil)
			s.configure("maxRetries", retries)
			out := s.run(t)
			require.Contains(t, out.Error, "1 call not delivered: the latest failure: the collector responded with 500")
			require.Zero(t, out.SentBatches)
			require.Equal(t, want, s.counts)
		})
	}
}

// After a batch is dropped, the next batches are still sent.
func TestTheNextBatchIsSent(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	s.input["sequences"] = []object{{"events": []object{event("one"), event("two")}}}
	s.fail(400, 1, nil)
	out := s.run(t)
	require.Contains(t, out.Error, "1 call not delivered")
	require.EqualValues(t, 1, out.SentBatches)
	s.srv.ExpectN(t, 1)
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	s.srv.Fail(mockserver.Fault{Hang: true})
	s.configure("timeout", 1)
	out := s.run(t)
	require.Contains(t, out.Error, "context deadline exceeded")
	require.Zero(t, out.SentBatches)
}

func TestRateLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int
		header  http.Header
		times   int
		retries int
		least   time.Duration // minimum time between two requests
	}{
		"429 is waited for":            {429, http.Header{"Retry-After": {"1"}}, 1, 3, time.Second},
		"it uses up no retry":          {429, http.Header{"Retry-After": {"1"}}, 3, 1, time.Second},
		"nor where there is none":      {429, http.Header{"Retry-After": {"1"}}, 2, 0, time.Second},
		"zero is a second":             {429, http.Header{"Retry-After": {"0"}}, 1, 0, time.Second},
		"503 is waited for as well":    {503, http.Header{"Retry-After": {"1"}}, 1, 0, time.Second},
		"X-RateLimit-Reset":            {429, http.Header{"X-RateLimit-Reset": {"1"}}, 1, 0, time.Second},
		"what is no time is a failure": {429, http.Header{"Retry-After": {"soon"}}, 1, 1, 375 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, mockserver.Config{})
			s.fail(tt.status, tt.times, tt.header)
			s.configure("maxRetries", tt.retries)
			require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
			require.Equal(t, []string{"", "1", "2", "3"}[:tt.times+1], s.counts)
			for i := range tt.times {
				require.GreaterOrEqual(t, s.at[i+1].Sub(s.at[i]), tt.least)
			}
		})
	}
}

// Retry-After in one response delays all batches.
func TestRateLimitHoldsAllBatches(t *testing.T) {
	t.Parallel()
	s := newScenario(t, mockserver.Config{})
	s.input["sequences"] = []object{{"events": []object{event("one")}}, {"delayMs": 500, "events": []object{event("two"), event("three")}}}
	s.fail(429, 1, http.Header{"Retry-After": {"2"}})
	require.Equal(t, output{Success: true, SentBatches: 3}, s.run(t))
	require.Len(t, s.at, 4)
	for _, at := range s.at[1:] {
		require.GreaterOrEqual(t, at.Sub(s.at[0]), 2*time.Second)
	}
}

func TestSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		config  string // the httpConfig in the settings; empty for none
		status  int    // the status of each response to the batch
		header  http.Header
		want    []string
		success bool
	}{
		"none":                      {"", 500, nil, []string{"", "1"}, false},
		"maxRetryCount":             {`{"backoffConfig":{"maxRetryCount":2}}`, 500, nil, []string{"", "1", "2"}, false},
		"no retries":                {`{"backoffConfig":{"maxRetryCount":0}}`, 500, nil, []string{""}, false},
		"disabled":                  {`{"backoffConfig":{"enabled":false,"maxRetryCount":0}}`, 500, nil, []string{"", "1"}, false},
		"enabled":                   {`{"backoffConfig":{"enabled":true,"maxRetryCount":0}}`, 500, nil, []string{""}, false},
		"a part":                    {`{"rateLimitConfig":{"maxRetryCount":1}}`, 500, nil, []string{"", "1"}, false},
		"a status is dropped":       {`{"backoffConfig":{"statusCodeOverrides":{"503":"drop"}}}`, 503, nil, []string{""}, false},
		"a status is tried again":   {`{"backoffConfig":{"statusCodeOverrides":{"404":"retry"}}}`, 404, nil, []string{"", "1"}, false},
		"all 4xx are tried again":   {`{"backoffConfig":{"default4xxBehavior":"retry"}}`, 418, nil, []string{"", "1"}, false},
		"all 5xx are dropped":       {`{"backoffConfig":{"default5xxBehavior":"drop"}}`, 502, nil, []string{""}, false},
		"rate limit, maxRetryCount": {`{"rateLimitConfig":{"maxRetryCount":1}}`, 429, http.Header{"Retry-After": {"1"}}, []string{"", "1"}, false},
		"rate limit, a short wait":  {`{"rateLimitConfig":{"maxRetryInterval":1,"maxRetryCount":1}}`, 429, http.Header{"Retry-After": {"300"}}, []string{"", "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := mockserver.Config{}
			if tt.config != "" {
				config.HTTPConfig = json.RawMessage(tt.config)
			}
			s := newScenario(t, config)
			s.input["cdnHost"] = s.srv.URL
			s.configure("maxRetries", 1)
			s.fail(tt.status, mockserver.Always, tt.header)
			out := s.run(t)
			require.False(t, out.Success)
			require.Equal(t, tt.want, s.counts)
		})
	}
}

// Without a cdnHost, the client does not request settings. Settings that cannot be read have no
// effect.
func TestMissingSettings(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var paths []string
	s := newScenario(t, mockserver.Config{HTTPConfig: json.RawMessage(`{"backoffConfig":{"maxRetryCount":0}}`)})
	settings := func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.Path)
		return strings.HasSuffix(r.URL.Path, "/settings")
	}
	s.srv.Fail(mockserver.Fault{Status: 404, Times: mockserver.Always, Match: settings})
	s.fail(500, 1, nil)
	require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
	require.False(t, slices.ContainsFunc(paths, func(p string) bool { return p != "/v1/batch" }), paths)

	s.srv.Clear()
	s.input["cdnHost"] = s.srv.URL
	s.fail(500, 1, nil)
	require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
	require.Contains(t, paths, "/v1/projects/k/settings")
}
