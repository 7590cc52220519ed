package mockserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/expect"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
)

// came is a response of /good, /bad or /all.
type came struct {
	Calls []struct {
		Good    bool
		Source  string
		Code    string
		Field   string
		Reason  string
		Hint    string
		Body    string
		Request *struct {
			Path          string
			Status, Count int
		}
		Call struct {
			Type, Event, Name, MessageID string
			Properties                   map[string]any
		}
	}
	More bool
	Next string
}

// titles returns the types and names of calls, or the codes of rejections.
func (c *came) titles() (all []string) {
	for _, call := range c.Calls {
		all = append(all, strings.TrimSpace(call.Call.Type+" "+call.Call.Event+call.Call.Name+" "+call.Code))
	}
	return all
}

func list(t *testing.T, srv *mockserver.Server, path string) *came {
	t.Helper()
	res, text := ask(t, http.MethodGet, srv.URL+path, "")
	require.Equal(t, http.StatusOK, res.StatusCode, text)
	var got came
	require.NoError(t, json.Unmarshal([]byte(text), &got), text)
	return &got
}

const someCalls = `{"batch":[
	{"type":"track","event":"Signed Up","userId":"u1","messageId":"m1","properties":{"plan":"Free","seats":3,"on":true,"a.b":{"c":"x"},"none":null}},
	{"type":"track","userId":"u1"},
	{"type":"page","name":"Home","anonymousId":"a1","messageId":"m2"},
	17]}`

func TestReceivedCallsAreListedInOrder(t *testing.T) {
	srv := mockserver.RunT(t)
	assert.Empty(t, list(t, srv, "/all").Calls)
	post(t, srv.URL+"/v1/batch", "web", someCalls)
	post(t, srv.URL+"/v1/batch", "web", `{"batch":`)
	post(t, srv.URL+"/v1/track", "ios", `{"event":"Opened","userId":"u2","messageId":"m3"}`)
	for range 2 {
		assert.Equal(t, []string{"track Signed Up", "page Home", "track Opened"}, list(t, srv, "/good").titles())
		assert.Equal(t, []string{"track  event_not_defined", "call_not_object", "invalid_json"}, list(t, srv, "/bad").titles())
		assert.Len(t, list(t, srv, "/all").Calls, 6)
	}
	bad := list(t, srv, "/bad").Calls
	assert.Equal(t, "event", bad[0].Field)
	assert.NotEmpty(t, bad[0].Reason)
	assert.NotEmpty(t, bad[0].Hint)
	assert.Equal(t, "track", bad[0].Call.Type)
	assert.Equal(t, "17", bad[1].Body, "what is no object is text")
	assert.Equal(t, http.StatusBadRequest, bad[2].Request.Status)
	assert.Equal(t, "/v1/batch", bad[2].Request.Path)
	assert.JSONEq(t, `"{\"batch\":"`, fmt.Sprintf("%q", bad[2].Body))
	_, text := ask(t, http.MethodPost, srv.URL+"/messages", "")
	assert.Contains(t, text, "Opened", "nor was anything drained for /messages")
	assert.Len(t, list(t, srv, "/good").Calls, 3)
}

func TestReceivedCallsAreFiltered(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "web", someCalls)
	post(t, srv.URL+"/v1/batch", "ios", `{"batch":[{"type":"identify","userId":"u2","traits":{"email":"a@b.c"},"context":{"app":{"version":"1.0"}}}]}`)
	for query, want := range map[string][]string{
		"event=Signed+Up":                         {"track Signed Up"},
		"event=Home":                              {"page Home"},
		"type=page&type=identify":                 {"page Home", "identify"},
		"userId=u1":                               {"track Signed Up", "track  event_not_defined"},
		"userId=a1":                               {"page Home"},
		"source=ios":                              {"identify"},
		"writeKey=ios":                            {"identify"},
		"messageId=m2":                            {"page Home"},
		"text=signed":                             {"track Signed Up"},
		"since=2100-01-01T00:00:00Z":              nil,
		"until=2001-01-01T00:00:00Z":              nil,
		"properties.plan=Free":                    {"track Signed Up"},
		"properties.plan=free":                    nil,
		"properties.seats=3":                      {"track Signed Up"},
		"properties.seats=3.0":                    {"track Signed Up"},
		"properties.on=true":                      {"track Signed Up"},
		"properties.none=null":                    {"track Signed Up"},
		"properties.a.b.c=x":                      {"track Signed Up"},
		"properties.a=x":                          nil,
		"traits.email=a@b.c":                      {"identify"},
		"context.app.version=1.0":                 {"identify"},
		"properties.plan=Free&properties.seats=4": nil,
	} {
		assert.Equal(t, want, list(t, srv, "/all?"+query).titles(), query)
	}
	for query, want := range map[string]string{
		"evnt=A":             `unknown parameter \"evnt\"`,
		"limit=0":            "use a number from 1 to 500",
		"limit=501":          "use a number from 1 to 500",
		"since=yesterday":    "use a time such as",
		"after=1":            "use the next value of a page from this collector process",
		"after=aaaaaaaa.1.1": "use the next value of a page from this collector process",
		"properties=x":       `unknown parameter \"properties\"`,
		"integrations.All=x": `unknown parameter \"integrations.All\"`,
		"limit=1&limit=2":    "use it once",
		"%zz":                "invalid query",
		"properties." + strings.Repeat("a.", 30) + "a=1": "use a path of at most 20 names",
	} {
		res, text := ask(t, http.MethodGet, srv.URL+"/all?"+query, "")
		assert.Equal(t, http.StatusBadRequest, res.StatusCode, query)
		assert.Contains(t, text, want, query)
	}
}

func TestReceivedCallsArePaged(t *testing.T) {
	srv := mockserver.RunT(t)
	var want []string
	for i := range 700 {
		post(t, srv.URL+"/v1/track", "web", fmt.Sprintf(`{"event":"E%d","userId":"u"}`, i))
		want = append(want, fmt.Sprintf("track E%d", i))
	}
	var got []string
	next := ""
	for {
		page := list(t, srv, "/good?limit=300&after="+next)
		got = append(got, page.titles()...)
		next = page.Next
		if !page.More {
			break
		}
		assert.Len(t, page.Calls, 300)
	}
	assert.Equal(t, want, got)
	assert.Empty(t, list(t, srv, "/all?after="+next).Calls)
	post(t, srv.URL+"/v1/track", "web", `{"event":"Later","userId":"u"}`)
	assert.Equal(t, []string{"track Later"}, list(t, srv, "/all?after="+next).titles(), "the cursor goes on with what comes later")
}

func TestReset(t *testing.T) {
	srv := run(t, "crm")
	require.NoError(t, srv.Pause(t.Context(), "crm"))
	post(t, srv.URL+"/v1/batch", "key", someCalls)
	reset := func(query string) map[string]any {
		res, text := ask(t, http.MethodPost, srv.URL+"/reset"+query, "")
		require.Equal(t, http.StatusOK, res.StatusCode, text)
		got := answer(t, text)
		delete(got, "message")
		return got
	}
	assert.Equal(t, map[string]any{"good": 2.0, "bad": 2.0, "pending": 2.0}, reset(""))
	assert.Equal(t, map[string]any{"good": 0.0, "bad": 0.0, "pending": 2.0}, reset(""))
	assert.Empty(t, list(t, srv, "/all").Calls)
	assert.Len(t, srv.Calls(), 2, "what else shows calls shows them still")
	require.NoError(t, srv.Resume(t.Context(), "crm"))
	srv.ExpectN(t, 2, mockserver.DeliveredTo("crm"))
	assert.Empty(t, list(t, srv, "/all").Calls, "a delivery does not bring a call back")
	res, text := ask(t, http.MethodGet, srv.URL+"/reset", "")
	assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, text)
}

func TestResetOfOneSource(t *testing.T) {
	srv := mockserver.RunT(t)
	send := func() {
		post(t, srv.URL+"/v1/track", "a", `{"event":"A","userId":"u"}`)
		post(t, srv.URL+"/v1/track", "b", `{"event":"B","userId":"u"}`)
	}
	send()
	for _, query := range []string{"?source=a", "?writeKey=a"} {
		_, text := ask(t, http.MethodPost, srv.URL+"/reset"+query, "")
		assert.Contains(t, text, `"bad":0`)
		assert.Equal(t, []string{"track B"}, list(t, srv, "/all").titles())
	}
	ask(t, http.MethodPost, srv.URL+"/reset?source=none", "")
	send()
	assert.Equal(t, []string{"track B", "track A", "track B"}, list(t, srv, "/all").titles())
	ask(t, http.MethodPost, srv.URL+"/reset", "")
	assert.Empty(t, list(t, srv, "/all").Calls)
}

// Rejected requests without a write key are grouped for a minute. A reset starts a new group.
func TestResetSplitsGroupOfRequestsWithoutAKey(t *testing.T) {
	srv := mockserver.RunT(t)
	for range 2 {
		for range 3 {
			res, _ := ask(t, http.MethodPost, srv.URL+"/v1/track", `{"event":"E","userId":"u"}`, "Content-Type: application/json")
			require.Equal(t, http.StatusUnauthorized, res.StatusCode)
		}
		bad := list(t, srv, "/bad").Calls
		require.Len(t, bad, 1)
		assert.Equal(t, 3, bad[0].Request.Count)
		ask(t, http.MethodPost, srv.URL+"/reset", "")
	}
}

func TestResetsOfManySourcesAreBounded(t *testing.T) {
	api := admin.New(newCollector(t, engine.Config{Messages: true}), "")
	status := func(path string) int { return serve(api, http.MethodPost, path, "").Code }
	for i := range 10_000 {
		require.Equal(t, http.StatusOK, status(fmt.Sprintf("/reset?source=s%d", i)))
	}
	assert.Equal(t, http.StatusTooManyRequests, status("/reset?source=another"))
	assert.Equal(t, http.StatusOK, status("/reset?source=s1"))
	assert.Equal(t, http.StatusOK, status("/reset"))
	assert.Equal(t, http.StatusOK, status("/reset?source=another"))
}

func TestCallsOfAPreviousRunAreNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := history.New(0)
		c := newCollector(t, engine.Config{Messages: true, History: history})
		serve(c, http.MethodPost, "/v1/page", `{"userId":"u","name":"Before"}`)
		time.Sleep(time.Second)
		c = newCollector(t, engine.Config{Messages: true, History: history})
		serve(c, http.MethodPost, "/v1/page", `{"userId":"u","name":"After"}`)
		res := serve(admin.New(c, ""), http.MethodGet, "/all", "")
		assert.Contains(t, res.Body.String(), "After")
		assert.NotContains(t, res.Body.String(), "Before")
	})
}

func expected(client *http.Client, url, body string) (int, *expect.Report, error) {
	res, err := client.Post(url+"/expect", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	var report expect.Report
	return res.StatusCode, &report, json.NewDecoder(res.Body).Decode(&report)
}

// Runs under synctest, so times are exact.
func TestExpectWaitsForCalls(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		ok       bool
		waited   time.Duration
		message  string
	}{ // calls arrive after 1 s, 2 s and 3 s
		"one that comes":                 {`{"expect":[{"event":"E2"}]}`, true, 2 * time.Second, "1 expectation met after 2s"},
		"one that came":                  {`{"expect":[{"event":"E0"}]}`, true, 0, "1 expectation met after 0s"},
		"one that does not come":         {`{"within":"10s","expect":[{"event":"E4"}]}`, false, 10 * time.Second, "got none, want at least 1"},
		"one that comes too late":        {`{"within":"2999ms","expect":[{"event":"E3"}]}`, false, 2999 * time.Millisecond, "got none"},
		"several":                        {`{"expect":[{"event":"E3"},{"event":"E1"}]}`, true, 3 * time.Second, "2 expectations met"},
		"an exact number settles":        {`{"settle":"500ms","expect":[{"event":{"$regexp":"E[12]"},"count":2}]}`, true, 2500 * time.Millisecond, "met"},
		"one too many while it settles":  {`{"settle":"1500ms","expect":[{"event":{"$regexp":"E[123]"},"count":2}]}`, false, 3 * time.Second, "got 3, want exactly 2"},
		"none is watched for to the end": {`{"within":"8s","expect":[{"event":"E4","count":0}]}`, true, 8 * time.Second, "met"},
		"none, and it comes":             {`{"within":"8s","expect":[{"event":"E3","count":0}]}`, false, 3 * time.Second, "got 1, want none"},
		"none beside one that comes":     {`{"within":"8s","expect":[{"event":"E2"},{"event":"E4","count":0}]}`, true, 2250 * time.Millisecond, "met"},
		"order":                          {`{"ordered":true,"expect":[{"event":"E1"},{"event":"E3"}]}`, true, 3 * time.Second, "met"},
		"another order":                  {`{"ordered":true,"expect":[{"event":"E3"},{"event":"E1"}]}`, false, 5 * time.Second, "got 1, but 0 of them after"},
		"of a source":                    {`{"source":"other","expect":[{"event":"E2"}]}`, false, 5 * time.Second, `no calls from source "other": `},
		"of a write key":                 {`{"writeKey":"key","expect":[{"event":"E2"}]}`, true, 2 * time.Second, "met"},
		"one that is not taken":          {`{"expect":[{"bad":true,"code":"event_not_defined"}]}`, true, 4 * time.Second, "met"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
				send := func(body string) {
					req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/track", strings.NewReader(body))
					assert.NoError(t, err)
					req.SetBasicAuth("key", "")
					res, err := srv.Client().Do(req)
					if assert.NoError(t, err) {
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
				}
				send(`{"event":"E0","userId":"u"}`)
				go func() {
					for i := range 3 {
						time.Sleep(time.Second)
						send(fmt.Sprintf(`{"event":"E%d","userId":"u"}`, i+1))
					}
					time.Sleep(time.Second)
					send(`{"userId":"u"}`)
				}()
				began := time.Now()
				status, report, err := expected(srv.Client(), srv.URL, c.document)
				require.NoError(t, err)
				assert.Equal(t, c.ok, status == http.StatusOK)
				assert.Equal(t, !c.ok, status == http.StatusUnprocessableEntity)
				assert.Equal(t, c.ok, report.OK)
				assert.Contains(t, report.Message, c.message)
				assert.Equal(t, c.waited, time.Since(began))
				time.Sleep(10 * time.Second) // the remaining calls arrive
			})
		})
	}
}

// TestExpectExplainsRefusedRequests checks that refused requests without a known source are listed, and
// that they do not count.
func TestExpectExplainsRefusedRequests(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/track", "other", `{"userId":"u"}`)
	ask(t, http.MethodPost, srv.URL+"/v1/track", `{"event":"E","userId":"u"}`) // no write key
	_, report, err := expected(srv.Client(), srv.URL, `{"source":"web","within":"1ms","expect":[{"event":"E"},{"bad":true,"count":0}]}`)
	require.NoError(t, err)
	assert.Equal(t, []string{"unknown_write_key: the request has no write key; send it as the user of Basic auth: a request without a known source"}, report.NotTaken)
	assert.Nil(t, report.Expectations[0].Nearest)
	assert.True(t, report.Expectations[1].OK)
	assert.Contains(t, report.Message, "accepted 0 calls, rejected 1\n  rejected: unknown_write_key: ")
}

func TestInvalidExpectations(t *testing.T) {
	srv := mockserver.RunT(t)
	for body, want := range map[string]string{
		``:                            "the body is empty",
		`{`:                           "the body is not JSON: unexpected EOF",
		`{"expect":[{"evnt":"A"}]}`:   "expect[0].evnt: is not a known field: did you mean event?",
		`{"expect":[{}]} {}`:          "unexpected data after the value",
		"{\"expect\":[{\"\xff\":1}]}": "is not a known field",
		strings.Repeat("[", 20_000):   "exceeded max depth",
		`{"expect":[{"properties":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000) + `}],"x":1}`: "x: is not a known field",
	} {
		res, text := ask(t, http.MethodPost, srv.URL+"/expect", body, "Content-Type: application/json")
		assert.Equal(t, http.StatusBadRequest, res.StatusCode, "%.60q", body)
		assert.Contains(t, answer(t, text)["message"], want)
	}
	res, _ := ask(t, http.MethodPost, srv.URL+"/expect", strings.Repeat(" ", 1<<20+1), "Content-Type: application/json")
	assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
	res, _ = ask(t, http.MethodPost, srv.URL+"/expect", `{}`, "Content-Type: text/plain")
	assert.Equal(t, http.StatusUnsupportedMediaType, res.StatusCode, "which a page of another site could send")
	res, text := ask(t, http.MethodPost, srv.URL+"/expect?within=1s", `{}`, "Content-Type: application/json")
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	assert.Contains(t, text, "unknown parameter")
}

// Of 1,000 concurrent requests, 100 wait for the call. The collector refuses the others
// immediately.
func TestWaitingExpectationsAreLimited(t *testing.T) {
	const all, most = 1000, 100
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	statuses := make(chan int, all)
	var waiting sync.WaitGroup
	for range all {
		waiting.Go(func() {
			status, report, err := expected(srv.Client(), srv.URL, `{"within":"5m","expect":[{"event":"Last"}]}`)
			assert.NoError(t, err)
			if status == http.StatusTooManyRequests {
				assert.Equal(t, "too_many_waiting", report.Code)
			}
			statuses <- status
		})
	}
	for range all - most {
		assert.Equal(t, http.StatusTooManyRequests, <-statuses)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/track", strings.NewReader(`{"event":"Last","userId":"u"}`))
	require.NoError(t, err)
	req.SetBasicAuth("key", "")
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	res.Body.Close()
	for range most {
		assert.Equal(t, http.StatusOK, <-statuses)
	}
	waiting.Wait()
	status, _, err := expected(srv.Client(), srv.URL, `{"expect":[{"event":"Last"}]}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status, "there is room again")
}

// Closed connections make room for other requests.
func TestClosedConnectionsStopWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
		ctx, leave := context.WithCancel(t.Context())
		const document = `{"within":"1m","expect":[{"event":"E"}]}`
		for range 100 {
			go func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/expect", strings.NewReader(document))
				assert.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				_, err = srv.Client().Do(req)
				assert.ErrorIs(t, err, context.Canceled)
			}()
		}
		synctest.Wait()
		status, _, err := expected(srv.Client(), srv.URL, document)
		require.NoError(t, err)
		assert.Equal(t, http.StatusTooManyRequests, status)
		leave()
		synctest.Wait()
		status, _, err = expected(srv.Client(), srv.URL, document)
		require.NoError(t, err)
		assert.Equal(t, http.StatusUnprocessableEntity, status)
	})
}

// Waiting requests end when the collector closes.
func TestCloseEndsWaitingExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
		answered := make(chan int)
		go func() {
			status, _, err := expected(srv.Client(), srv.URL, `{"within":"5m","expect":[{"event":"E"}]}`)
			assert.NoError(t, err)
			answered <- status
		}()
		synctest.Wait()
		srv.Engine().Drain()
		assert.Equal(t, http.StatusServiceUnavailable, <-answered)
	})
}

// The test API refuses requests from pages of other sites and requests with foreign
// host names.
func TestTestAPIRefusesForeignSites(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "k", track("m", 1))
	for _, request := range []string{"GET /good", "GET /bad", "GET /all", "POST /reset", "POST /expect"} {
		for _, header := range []string{
			"Host: evil.example", "Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
		} {
			method, path, _ := strings.Cut(request, " ")
			res, text := ask(t, method, srv.URL+path, `{"expect":[{}]}`, header, "Content-Type: application/json")
			assert.Contains(t, []int{http.StatusForbidden, http.StatusMisdirectedRequest}, res.StatusCode, "%s %s", request, header)
			assert.NotContains(t, text, "Tested")
			assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	assert.Len(t, list(t, srv, "/good").Calls, 1, "nothing was reset")
}

func TestTestAPIIsOnlyServedInTests(t *testing.T) {
	api := admin.New(newCollector(t, engine.Config{}), "")
	for _, path := range admin.TestPaths {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			assert.Equal(t, http.StatusNotFound, serve(api, method, path, "").Code, path)
		}
	}
}
