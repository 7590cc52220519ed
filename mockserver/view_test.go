package mockserver_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A judged is a TB that records a failure.
type judged struct {
	failure  string
	cleanups []func()
}

func (j *judged) Helper()          {}
func (j *judged) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }
func (j *judged) Fatalf(format string, args ...any) {
	j.failure = fmt.Sprintf(format, args...)
	panic(j)
}

// judge runs an assertion and returns its failure.
func judge(run func(t mockserver.TB)) (failure string) {
	j := &judged{}
	defer func() {
		if cause := recover(); cause != nil && cause != any(j) {
			panic(cause)
		}
		failure = j.failure
	}()
	run(j)
	return ""
}

func TestRunTFailsOnInvalidConfig(t *testing.T) {
	failure := judge(func(t mockserver.TB) { mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{}}}) })
	assert.Contains(t, failure, "sources[0].name")
	failure = judge(func(t mockserver.TB) { mockserver.RunT(t, mockserver.Config{}, mockserver.Config{}) })
	assert.Contains(t, failure, "one Config")
	j := &judged{}
	srv := mockserver.RunT(j)
	_, err := http.Get(srv.URL + "/health")
	require.NoError(t, err)
	for _, cleanup := range j.cleanups {
		cleanup()
	}
	_, err = http.Get(srv.URL + "/health")
	assert.Error(t, err)
}

func TestCallsAreFound(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "web", `{"batch":[
		{"type":"track","event":"Signed Up","userId":"u1","messageId":"m1","properties":{"plan":"Pro","seats":3}},
		{"type":"track","event":"Signed In","userId":"u2","messageId":"m2"},
		{"type":"page","name":"Home","userId":"u1","messageId":"m3"}]}`)
	post(t, srv.URL+"/v1/identify", "ios", `{"userId":"u1","messageId":"m4"}`)
	ids := func(match ...mockserver.Match) (ids []string) {
		for _, c := range srv.Calls(match...) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	assert.Equal(t, []string{"m1", "m2", "m3", "m4"}, ids())
	assert.Equal(t, []string{"m1", "m2"}, ids(mockserver.OfType("track")))
	assert.Equal(t, []string{"m1"}, ids(mockserver.OfEvent("Signed Up")))
	assert.Equal(t, []string{"m1", "m3", "m4"}, ids(mockserver.OfUser("u1")))
	assert.Equal(t, []string{"m3"}, ids(mockserver.OfUser("u1"), mockserver.OfType("page")))
	assert.Equal(t, []string{"m1"}, ids(mockserver.Like(`{"properties":{"plan":"Pro"}}`)))
	assert.Equal(t, []string{"m1"}, ids(mockserver.Like(`{"properties":{"seats":3.0}}`)), "numbers are the same however they are written")
	assert.Empty(t, ids(mockserver.Like(`{"properties":{"seats":"3"}}`)))
	assert.Equal(t, []string{"m2"}, ids(func(r *tracking.Record) bool { return strings.HasSuffix(r.Call.Event, "In") }))

	ios := srv.Source("ios")
	require.Len(t, ios.Calls(), 1)
	assert.Equal(t, "m4", ios.Calls()[0].ID)
	assert.Equal(t, []string{"m4"}, ids(mockserver.OfSource(ios.Calls()[0].Source)))
	record, ok := srv.Call("m3")
	assert.True(t, ok)
	assert.Equal(t, "Home", record.Call.Name)
	_, ok = srv.Call("m9")
	assert.False(t, ok)
	_, ok = ios.Call("m3")
	assert.False(t, ok)
}

func TestWaitReturnsImmediately(t *testing.T) {
	srv := mockserver.RunT(t)
	got := make(chan []tracking.Call)
	go func() {
		calls, err := srv.Wait(t.Context(), 2, mockserver.OfEvent("Tested"))
		assert.NoError(t, err)
		got <- calls
	}()
	post(t, srv.URL+"/v1/batch", "key", track("a", 1))
	post(t, srv.URL+"/v1/page", "key", `{"userId":"u"}`)
	post(t, srv.URL+"/v1/batch", "key", track("b", 1))
	assert.Len(t, <-got, 2)
	calls, err := srv.Wait(t.Context(), 1)
	require.NoError(t, err)
	assert.Len(t, calls, 3, "all that are there by then")
}

func TestWaitErrorListsReceivedCalls(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[
		{"type":"track","event":"Signed In","userId":"u1","messageId":"m1","properties":{"plan":"Free"}},
		{"type":"track","event":"Signed Up","userId":"u2","messageId":"m2","properties":{"plan":"Free","seats":1}},
		{"type":"identify","userId":"u1","messageId":"m3"},
		{"type":"track","userId":"u1"}]}`)
	post(t, srv.URL+"/v1/batch", "key", `{"batch":`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	calls, err := srv.Wait(ctx, 1, mockserver.OfEvent("Signed Up"), mockserver.Like(`{"properties":{"plan":"Pro","seats":1,"trial":true}}`))
	assert.Empty(t, calls)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, `mockserver: waited for 1 call; received 0 matching of 3
  nearest: track "Signed Up" userId="u2" messageId="m2"
    properties.plan is "Free", want "Pro"
    properties.trial is missing, want true
  received: track "Signed In" userId="u1" messageId="m1"
  received: track "Signed Up" userId="u2" messageId="m2"
  received: identify userId="u1" messageId="m3"
  rejected: event_not_defined: a track call needs the name of its event: {"type":"track","userId":"u1"}
  refused: POST /v1/batch with status 400: invalid_json: invalid JSON at byte 9: unexpected end of text`, err.Error())

	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = srv.Wait(ctx, 1, func(r *tracking.Record) bool {
		return r.Call.Context()["ip"] != nil || r.Missf("it has no context.ip")
	},
		mockserver.DeliveredTo("hook"), func(*tracking.Record) bool { return false })
	require.Error(t, err)
	assert.Contains(t, err.Error(), "it has no context.ip\n    destination \"hook\" has not attempted the call, want delivered\n    match 3 of 3 reports false: {")
}

func TestExpect(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "key", track("m", 3))
	assert.Equal(t, "m-1", srv.Expect(t, mockserver.OfUser("u1")).Call.ID)
	srv.ExpectNone(t, mockserver.OfType("page"))
	records := srv.ExpectN(t, 3, mockserver.OfEvent("Tested"))
	assert.Equal(t, "m-0 m-2", records[0].Call.ID+" "+records[2].Call.ID)
	srv.ExpectN(t, 0, mockserver.OfType("page"))

	failure := judge(func(t mockserver.TB) { srv.ExpectNone(t, mockserver.OfUser("u1")) })
	record, _ := srv.Call("m-1")
	assert.Equal(t, `mockserver: want 0 calls, received 1 matching
  unexpected: track "Tested" userId="u1" messageId="m-1"
  first unexpected call: `+string(record.Call.Body), failure)
	failure = judge(func(t mockserver.TB) { srv.ExpectN(t, 1) })
	assert.Equal(t, `mockserver: want 1 call, received 3 matching
  unexpected: track "Tested" userId="u1" messageId="m-1"
  unexpected: track "Tested" userId="u2" messageId="m-2"
  first unexpected call: `+string(record.Call.Body), failure)
}

// Runs under synctest: an unsuccessful Expect takes exactly WaitTimeout.
func TestExpectWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := inProcess(t, engine.Config{})
		send(t, srv, track("a", 1))
		later := time.AfterFunc(mockserver.WaitTimeout/2, func() { send(t, srv, track("b", 1)) })
		defer later.Stop()
		start := time.Now()
		assert.Len(t, srv.ExpectN(t, 2), 2)
		assert.Equal(t, mockserver.WaitTimeout/2, time.Since(start))
		failure := judge(func(t mockserver.TB) { srv.ExpectN(t, 3, mockserver.OfEvent("Tested")) })
		assert.Contains(t, failure, "waited for 3 calls; received 2 matching of 2\n  received: ")
		assert.Equal(t, 3*mockserver.WaitTimeout/2, time.Since(start))
	})
}

// Each case has a different cause.
func TestWaitErrorExplainsMissingCalls(t *testing.T) {
	server := mockserver.RunT(t)
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	tell := func(ctx context.Context, v mockserver.View) string {
		_, err := v.Wait(ctx, 1, mockserver.OfEvent("Tested"))
		require.Error(t, err)
		return err.Error()
	}
	assert.Equal(t, `mockserver: waited for 1 call; received none
  received nothing else either: was the client flushed or closed, and is its Endpoint this server's URL?`, tell(ended, server.View))
	closed := mockserver.RunT(t)
	require.NoError(t, closed.Close())
	assert.Equal(t, "mockserver: waited for 1 call; received none\n  the server is not ready: mockserver: the collector is closed, or closing", tell(ended, closed.View))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Contains(t, tell(canceled, server.View), "mockserver: waited for 1 call until context canceled; received none\n")

	post(t, server.URL+"/v1/batch", "key", track("m", 2))
	srv := server.Source("kee")
	assert.Equal(t, `mockserver: waited for 1 call; received none
  received 2 calls with other write keys`, tell(ended, srv))

	srv = server.Source("key")
	srv.Clear()
	srv.Fail(mockserver.Fault{Status: 400, Times: 3})
	post(t, server.URL+"/v1/batch", "key", track("m", 1))
	assert.Equal(t, `mockserver: waited for 1 call; received none
  faults affected 1 request to the collector and wait for 2 more`, tell(ended, srv))
	assert.Contains(t, tell(ended, server.View), "faults affected 1 request")
	assert.NotContains(t, tell(ended, server.Source("other")), "fault")
	srv.ClearFaults()
	srv.Clear()
	assert.NotContains(t, tell(ended, srv), "fault")

	post(t, server.URL+"/v1/batch", "other", "{")
	assert.Contains(t, tell(ended, server.View), "refused: POST /v1/batch with status 400")
	assert.Contains(t, tell(ended, server.Source("other")), "refused: POST /v1/batch with status 400")
	assert.Contains(t, tell(ended, srv), "refused 1 request with other write keys")
	assert.NotContains(t, tell(ended, srv), "refused:")
}

func TestWaitErrorExplainsTheClosestCall(t *testing.T) {
	srv, _ := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("crm", "http://h/1")}})
	send(t, srv, track("m", 1))
	send(t, srv, `{"batch":[{"type":"page","name":"Home","userId":"u","messageId":"p"}]}`)
	srv.ExpectN(t, 2, mockserver.DeliveredTo("crm"))
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	tell := func(match mockserver.Match) string {
		_, err := srv.Wait(ended, 1, match)
		require.Error(t, err)
		return err.Error()
	}
	assert.Contains(t, tell(mockserver.OfEvent("Teste")), "nearest: track \"Tested\" userId=\"u0\" messageId=\"m-0\"\n    event is \"Tested\", want \"Teste\"",
		"though the page came later")
	assert.Contains(t, tell(mockserver.DeliveredTo("crmm")), `destination "crmm" has not attempted the call (attempted by: "crm"), want delivered`)
	assert.Contains(t, tell(func(*tracking.Record) bool { return false }), `match 1 of 1 reports false: {"type":"page","name":"Home"`)
}

func TestSourceViewsAreIsolated(t *testing.T) {
	server := mockserver.RunT(t)
	var tests sync.WaitGroup
	for i := range 8 {
		key := fmt.Sprintf("key-of-test-%d", i)
		tests.Go(func() {
			srv := server.Source(key)
			for round := range 5 {
				srv.Fail(mockserver.Fault{Status: http.StatusTeapot})
				status, _ := post(t, server.URL+"/v1/batch", key, track("m", 3))
				assert.Equal(t, http.StatusTeapot, status)
				status, _ = post(t, server.URL+"/v1/batch", key, track("m", 3))
				assert.Equal(t, http.StatusOK, status)
				calls, err := srv.Wait(t.Context(), 3)
				assert.NoError(t, err)
				assert.Len(t, calls, 3, "test %d, round %d", i, round)
				post(t, server.URL+"/v1/track", key, `{}`)
				assert.Len(t, srv.Rejections(), 1)
				srv.Clear()
				assert.Empty(t, srv.Calls())
			}
		})
	}
	tests.Wait()
	assert.Empty(t, server.Calls(), "each was cleared by its test")
	assert.Empty(t, server.Rejections())
}

func TestGoldenFiles(t *testing.T) {
	srv := mockserver.RunT(t)
	send := func(id, anonymous, plan string) {
		post(t, srv.URL+"/v1/batch", "key", fmt.Sprintf(`{"batch":[
			{"type":"track","event":"Signed Up","anonymousId":%q,"messageId":"b-%s","timestamp":%q,"properties":{"plan":%q,"n":12345678901234567890,"html":"<&>"}},
			{"type":"page","name":"Home","anonymousId":%q,"messageId":"a-%s","context":{"library":{"name":"x","version":%q}}}],"sentAt":%q}`,
			anonymous, id, time.Now().Format(time.RFC3339Nano), plan, anonymous, id, id, time.Now().Format(time.RFC3339Nano)))
	}
	file := filepath.Join(t.TempDir(), "testdata", "signup.json")
	options := mockserver.Golden{Without: []string{"context.library.version", "context.nothing.there", "nothing"}}
	send("1", "one", "Pro")
	assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, file, options) }), "does not exist")
	update := options
	update.Update = true
	srv.Golden(t, file, update)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, `[
  {
    "anonymousId": "<anonymousId 1>",
    "context": {
      "library": {
        "name": "x"
      }
    },
    "messageId": "<messageId>",
    "name": "Home",
    "receivedAt": "<time>",
    "sentAt": "<time>",
    "timestamp": "<time>",
    "type": "page"
  },
  {
    "anonymousId": "<anonymousId 1>",
    "event": "Signed Up",
    "messageId": "<messageId>",
    "originalTimestamp": "<time>",
    "properties": {
      "html": "<&>",
      "n": 12345678901234567890,
      "plan": "Pro"
    },
    "receivedAt": "<time>",
    "sentAt": "<time>",
    "timestamp": "<time>",
    "type": "track"
  }
]
`, string(text))
	srv.Golden(t, file, options)

	srv.Clear()
	send("2", "two", "Pro")
	srv.Golden(t, file, options) // equal except for values that vary
	srv.Clear()
	send("3", "three", "Free")
	assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, file, options) }), "! track \"Signed Up\"\n      properties.plan is \"Free\", want \"Pro\"")
	assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, file, options, mockserver.OfType("page")) }), "- track \"Signed Up\" is missing")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	assert.Contains(t, judge(func(t mockserver.TB) { srv.Golden(t, file, options) }), "not valid JSON")

	kept := mockserver.Golden{Update: true, KeepIDs: true, KeepTimes: true, KeepOrder: true}
	srv.Golden(t, file, kept)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Less(t, strings.Index(string(text), "b-3"), strings.Index(string(text), "a-3"))
	assert.NotContains(t, string(text), "<time>")
	assert.NotContains(t, string(text), "Id 1>")
	kept.Update = false
	srv.Golden(t, file, kept)
}

func TestBaseline(t *testing.T) {
	srv := mockserver.RunT(t)
	file := filepath.Join(t.TempDir(), "testdata", "tracking.json")
	check := func(send string, match ...mockserver.Match) string {
		srv.Clear()
		post(t, srv.URL+"/v1/batch", "key", `{"batch":[`+send+`]}`)
		return judge(func(t mockserver.TB) { srv.Baseline(t, file, match...) })
	}
	call := func(id string, plan any) string {
		return fmt.Sprintf(`{"type":"track","event":"Signed Up","userId":"user-9f86d081884c%s","timestamp":%q,"properties":{"plan":%v}}`, id, time.Now().Format(time.RFC3339Nano), plan)
	}
	const path = "mockserver: baseline: "
	assert.Equal(t, path+file+" does not exist: run the test once with ANALYTICS_BASELINE=record", check(call("1111", `"Pro"`)))

	t.Setenv("ANALYTICS_BASELINE", "yes")
	assert.Equal(t, path+`invalid ANALYTICS_BASELINE "yes": use record or widen`, check(call("1111", `"Pro"`)))
	t.Setenv("ANALYTICS_BASELINE", "record")
	assert.Empty(t, check(call("1111", `"Pro"`)))
	t.Setenv("ANALYTICS_BASELINE", "")
	assert.Empty(t, check(call("2222", `"Pro"`)))
	assert.Empty(t, check(call("2222", `"Pro"`)+`,{"type":"identify","userId":"u"}`, mockserver.OfType("track")))
	assert.Equal(t, path+file+`: 1 difference from the baseline (received 1 call of 1 user)

user 1, userId "user-<hex>"
! track "Signed Up"
      properties.plan is "Free", want "Pro"

to accept the differences, run the test with ANALYTICS_BASELINE=record`, check(call("3333", `"Free"`)))

	t.Setenv("ANALYTICS_BASELINE", "widen")
	assert.Empty(t, check(call("3333", `"Free"`)))
	assert.Contains(t, check(""), "the runs have different calls")
	t.Setenv("ANALYTICS_BASELINE", "")
	assert.Empty(t, check(call("4444", `"Enterprise"`)))
	assert.Contains(t, check(call("4444", `1`)), `properties.plan is 1, want a string`)
	require.NoError(t, os.WriteFile(file, []byte("[]"), 0o600))
	assert.Contains(t, check(""), path+file+": not a baseline")
}

func TestWaitingIsNotQuadratic(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	looks := 0
	done := make(chan error)
	go func() {
		_, err := srv.Wait(t.Context(), 3_000, func(*tracking.Record) bool { looks++; return true })
		done <- err
	}()
	for i := range 300 {
		serve(srv.Engine(), http.MethodPost, "/v1/batch", track(fmt.Sprint(i), 10))
	}
	require.NoError(t, <-done)
	assert.LessOrEqual(t, looks, 2*3_000, "each call is looked at when it changes, and at the end")
}

// The call may change or be cleared before Expect returns.
func TestExpectReturnsTheMatchedState(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "key", track("m", 2))
	looks := 0
	once := func(r *tracking.Record) bool {
		looks++
		return r.Call.ID == "m-1" && looks <= 2
	}
	record := srv.Expect(t, once)
	assert.Equal(t, "m-1", record.Call.ID)

	looks = 0
	calls, err := srv.Wait(t.Context(), 1, once)
	require.NoError(t, err)
	require.Len(t, calls, 1)
	assert.Equal(t, "m-1", calls[0].ID)
}

func TestClearDiscardsRejectionsOfASource(t *testing.T) {
	server := mockserver.RunT(t)
	bad := `{"batch":[{"type":"track","userId":"u"}]}`
	one, two := server.Source("key-one"), server.Source("key-two")
	for range 3 {
		post(t, server.URL+"/v1/batch", "key-one", bad)
		post(t, server.URL+"/v1/batch", "key-two", bad)
	}
	require.Len(t, one.Rejections(), 3)
	one.Clear()
	assert.Empty(t, one.Rejections())
	assert.Len(t, two.Rejections(), 3, "another source is left alone")
	post(t, server.URL+"/v1/batch", "key-one", bad)
	assert.Len(t, one.Rejections(), 1)
	assert.Len(t, server.Rejections(), 4)
	server.Clear()
	assert.Empty(t, server.Rejections())
	post(t, server.URL+"/v1/batch", "key-one", bad)
	assert.Len(t, one.Rejections(), 1)
}

func TestLikeWithInvalidJSONFailsTheTest(t *testing.T) {
	srv := mockserver.RunT(t)
	for _, want := range []string{`{"a":1}}`, `{"a":1}]`, `{"a":1} 2`, `{`, ``} {
		match := mockserver.Like(want)
		for name, expect := range map[string]func(t mockserver.TB){
			"Expect":     func(t mockserver.TB) { srv.Expect(t, mockserver.OfType("track"), match) },
			"ExpectN":    func(t mockserver.TB) { srv.ExpectN(t, 1, match) },
			"ExpectNone": func(t mockserver.TB) { srv.ExpectNone(t, match) },
		} {
			assert.Contains(t, judge(expect), fmt.Sprintf("mockserver: Like requires JSON, got %q: ", want), name)
		}
		_, err := srv.Wait(t.Context(), 1, match)
		assert.ErrorContains(t, err, "Like requires JSON")
	}
	post(t, srv.URL+"/v1/batch", "key", track("m", 1))
	assert.Empty(t, srv.Calls(mockserver.Like(`{`)))
}

func TestClosestCallHasTheMostSimilarValues(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[
		{"type":"track","event":"Order Completed","userId":"u","messageId":"m1","properties":{"plan":"Enterprise"}},
		{"type":"track","event":"Sign Up","userId":"u","messageId":"m2","properties":{"plan":"pro"}},
		{"type":"track","event":"Cart Viewed","userId":"u","messageId":"m3","properties":{"plan":"Free"}}]}`)
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, match := range []mockserver.Match{mockserver.OfEvent("Signed Up"), mockserver.Like(`{"properties":{"plan":"Pro"}}`)} {
		_, err := srv.Wait(ended, 1, match)
		assert.ErrorContains(t, err, `nearest: track "Sign Up" userId="u" messageId="m2"`)
	}
}

func TestWithinLimitsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
		start := time.Now()
		judge(func(t mockserver.TB) { srv.Within(time.Minute).Expect(t) })
		assert.Equal(t, time.Minute, time.Since(start))
		start = time.Now()
		judge(func(t mockserver.TB) { srv.Source("key").Within(time.Second).ExpectN(t, 2) })
		assert.Equal(t, time.Second, time.Since(start))
		_, err := srv.Within(time.Second).Source("key").Wait(t.Context(), 1)
		require.Error(t, err)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestClearDuringAWait(t *testing.T) {
	server := mockserver.RunT(t)
	for name, srv := range map[string]mockserver.View{"all": server.View, "a source": server.Source("key")} {
		t.Run(name, func(t *testing.T) {
			srv.Clear()
			seen := make(chan string, 10)
			got := make(chan []tracking.Call)
			go func() {
				calls, err := srv.Wait(t.Context(), 2, func(r *tracking.Record) bool { seen <- r.Call.ID; return true })
				assert.NoError(t, err)
				got <- calls
			}()
			post(t, server.URL+"/v1/batch", "key", track("before", 1))
			assert.Equal(t, "before-0", <-seen)
			srv.Clear()
			post(t, server.URL+"/v1/batch", "key", track("after", 1))
			assert.Equal(t, "after-0", <-seen)
			post(t, server.URL+"/v1/batch", "key", track("before", 1))
			calls := <-got
			require.Len(t, calls, 2)
			assert.Equal(t, "after-0 before-0", calls[0].ID+" "+calls[1].ID)
		})
	}
}
