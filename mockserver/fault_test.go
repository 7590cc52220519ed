package mockserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// try posts a batch with one call and returns the sender's view of the response.
func try(ctx context.Context, client *http.Client, url, id string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/batch", strings.NewReader(track(id, 1)))
	if err != nil {
		return 0, "", err
	}
	req.SetBasicAuth("key", "")
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// Every fault is tested in-process and on a real socket.
func TestCollectorFaults(t *testing.T) {
	for _, inProcess := range []bool{true, false} {
		srv := mockserver.RunT(t, mockserver.Config{InProcess: inProcess})
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if inProcess {
			client = srv.Client()
		}
		for _, test := range []struct {
			name   string
			fault  mockserver.Fault
			status int // 0 for a connection error
			body   string
			stored bool
		}{
			{"a status", mockserver.Fault{Status: 503}, 503, `"code":"fault"`, false},
			{"a status with a header", mockserver.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, 429, `"success":false`, false},
			{"an answer that is not JSON", mockserver.Fault{Body: "<html>It works!</html>"}, 200, "<html>It works!</html>", false},
			{"an empty answer", mockserver.Fault{Status: 204}, 204, "", false},
			{"a connection that is reset", mockserver.Fault{Reset: true}, 0, "", false},
			{"an answer that breaks off", mockserver.Fault{Body: `{"succ`, Reset: true}, 0, `{"succ`, false},
			{"a lost response", mockserver.Fault{AnswerOnly: true}, 0, "", true},
			{"a lost response and a reset", mockserver.Fault{AnswerOnly: true, Reset: true}, 0, "", true},
			{"a status after the calls were stored", mockserver.Fault{AnswerOnly: true, Status: 502}, 502, "fault", true},
			{"a delay", mockserver.Fault{Delay: time.Millisecond}, 200, ok, true},
			{"a delay before a status", mockserver.Fault{Delay: time.Millisecond, Status: 500}, 500, "fault", false},
		} {
			srv.Clear()
			srv.Fail(test.fault)
			assert.Equal(t, 1, srv.FaultsLeft())
			status, body, err := try(t.Context(), client, srv.URL, "m")
			if test.status == 0 {
				assert.Error(t, err, test.name)
			} else {
				require.NoError(t, err, test.name)
				assert.Equal(t, test.status, status, test.name)
			}
			assert.Contains(t, body, test.body, test.name)
			assert.Equal(t, test.stored, len(srv.Calls()) == 1, test.name)
			assert.Zero(t, srv.FaultsLeft())
			status, body, err = try(t.Context(), client, srv.URL, "m")
			require.NoError(t, err, test.name)
			assert.Equal(t, http.StatusOK, status, "the next request is as always")
			assert.Equal(t, ok, body)
			assert.Len(t, srv.Calls(), 1, "and is not stored again if it was: %s", test.name)
		}

		ctx, giveUp := context.WithCancel(t.Context())
		var matched atomic.Bool
		srv.Fail(mockserver.Fault{Hang: true, Match: func(*http.Request) bool {
			first := !matched.Swap(true) // the next request may arrive before this fault is removed
			giveUp()
			return first
		}})
		_, _, err := try(ctx, client, srv.URL, "m")
		assert.ErrorIs(t, err, context.Canceled, "the sender gives up")
		came := make(chan struct{})
		srv.Fail(mockserver.Fault{Hang: true, Match: func(*http.Request) bool { close(came); return true }})
		ended := make(chan error)
		go func() { _, _, err := try(t.Context(), client, srv.URL, "m"); ended <- err }()
		<-came
		require.NoError(t, srv.Close())
		assert.Error(t, <-ended, "nothing hangs beyond Close")
	}
}

func TestFaultsApplyInOrderAndCombine(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	statuses := func(n int) (all []int) {
		for range n {
			status, _, err := try(t.Context(), srv.Client(), srv.URL, "m")
			if err != nil {
				status = -1
			}
			all = append(all, status)
		}
		return all
	}
	srv.Fail(mockserver.Fault{Status: 500, Times: 2}, mockserver.Fault{Reset: true}, mockserver.Fault{Status: 429})
	assert.Equal(t, 4, srv.FaultsLeft())
	assert.Equal(t, []int{500, 500, -1, 429, 200}, statuses(5))

	srv.Fail(mockserver.Fault{Status: 503, Times: mockserver.Always})
	srv.Fail(mockserver.Fault{Status: 500}) // has no effect after a permanent fault
	assert.Equal(t, []int{503, 503, 503}, statuses(3))
	srv.ClearFaults()
	assert.Equal(t, []int{200}, statuses(1))
	assert.Zero(t, srv.FaultsLeft())

	srv.Fail(mockserver.Fault{Status: 418, Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/settings") }}, mockserver.Fault{Status: 500})
	assert.Equal(t, []int{500, 200}, statuses(2), "a fault that does not match lets the next one have the request")
	res, err := srv.Client().Get(srv.URL + "/v1/projects/key/settings")
	require.NoError(t, err)
	assert.Equal(t, 418, res.StatusCode)
	srv.Fail(mockserver.Fault{Status: 500})
	res, err = srv.Client().Get(srv.URL + "/health")
	require.NoError(t, err)
	assert.Equal(t, 200, res.StatusCode, "faults befall requests that bring calls")
}

func TestDeliveryFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1"), hook("other", "http://h/2")},
			Jitter: func() float64 { return 0 }})
		srv.FailDeliveries(
			mockserver.Fault{Destination: "d", Status: 503, Header: http.Header{"Retry-After": {"10"}}},
			mockserver.Fault{Destination: "d", Delay: 2 * time.Second, Status: 500, Body: "broken"},
			mockserver.Fault{Destination: "d", Reset: true},
			mockserver.Fault{Destination: "d", Hang: true},
			mockserver.Fault{Destination: "d", Delay: time.Minute},
			mockserver.Fault{Destination: "d", Status: 200, Body: "half", Reset: true},
			mockserver.Fault{Destination: "d", AnswerOnly: true, Status: 502},
		)
		start := time.Now()
		send(t, srv, track("m", 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := srv.Wait(ctx, 1, mockserver.DeliveredTo("d"))
		require.NoError(t, err)
		assert.Equal(t, 22*time.Second, time.Since(start), "10 s of Retry-After, 2 s of delay, and two time-outs")
		record, _ := srv.Call("m-0")
		var got []string
		for _, a := range record.Attempts {
			if a.Destination == "d" {
				got = append(got, strings.Join([]string{string(a.Reason), a.Duration.String(), string(a.ResponseBody)}, " "))
			}
		}
		assert.Equal(t, []string{"status 0s ", "status 2s broken", "connection 0s ", "timeout 5s ", "timeout 5s ", "connection 0s half", "status 0s ", " 0s "}, got)
		assert.Len(t, h.times("/1", start), 2, "one whose answer was lost, and the one that counts")
		other, _ := record.State("other")
		assert.Equal(t, tracking.StateDelivered, other.State)
		assert.Len(t, h.times("/2", start), 1)
	})
}

func TestFaultDelayUnderSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
		srv.Fail(mockserver.Fault{Delay: time.Hour})
		start, done := time.Now(), make(chan int)
		go func() {
			status, _, _ := try(t.Context(), srv.Client(), srv.URL, "m")
			done <- status
		}()
		time.Sleep(time.Hour - time.Second)
		assert.Empty(t, srv.Calls())
		assert.Equal(t, http.StatusOK, <-done)
		assert.Equal(t, time.Hour, srv.Expect(t).Call.ReceivedAt.Sub(start))
	})
}

// through returns a client of an in-process handler.
func through(h http.HandlerFunc) *http.Client {
	return &http.Client{Transport: mockserver.NewTransport(h)}
}

// readAll returns the response body and the error of reading it.
func readAll(t *testing.T, res *http.Response, err error) (string, error) {
	t.Helper()
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

func TestTransportPassesTheRequest(t *testing.T) {
	c := through(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		user, _, _ := r.BasicAuth()
		assert.Equal(t, []any{"/a%20b?c=d", "/a b", "d", "h.example:8080", "u", "text", int64(4), "POST"},
			[]any{r.RequestURI, r.URL.Path, r.FormValue("c"), r.Host, user, string(body), r.ContentLength, r.Method})
		w.Header().Set("X-A", "1")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-B", "too late")
		_, _ = io.WriteString(w, "made")
	})
	res, err := c.Post("http://u:p@h.example:8080/a%20b?c=d", "", strings.NewReader("text"))
	body, err := readAll(t, res, err)
	require.NoError(t, err)
	assert.Equal(t, []any{201, "1", "", "made"}, []any{res.StatusCode, res.Header.Get("X-A"), res.Header.Get("X-B"), body})
}

func TestTransportStreamsTheResponse(t *testing.T) {
	next := make(chan struct{})
	res, err := through(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one")
		<-next
		_, _ = io.WriteString(w, "two")
	}).Get("http://h/")
	require.NoError(t, err)
	first := make([]byte, 3)
	_, err = io.ReadFull(res.Body, first)
	require.NoError(t, err)
	close(next)
	rest, err := readAll(t, res, nil)
	require.NoError(t, err)
	assert.Equal(t, "onetwo", string(first)+rest)
}

func TestTransportWithEmptyResponses(t *testing.T) {
	res, err := through(func(http.ResponseWriter, *http.Request) {}).Get("http://h/")
	body, err := readAll(t, res, err)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Empty(t, body)
	res, err = through(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") }).Head("http://h/")
	body, err = readAll(t, res, err)
	require.NoError(t, err)
	assert.Empty(t, body)
}

func TestTransportWithAnAbortingHandler(t *testing.T) {
	_, err := through(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }).Get("http://h/")
	assert.ErrorContains(t, err, "connection reset")
	res, err := through(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}).Get("http://h/")
	body, err := readAll(t, res, err)
	assert.Equal(t, "half", body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestTransportWithACanceledRequest(t *testing.T) {
	ended := make(chan struct{}, 2)
	c := through(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/answer" {
			_, _ = io.WriteString(w, "x")
		}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	res, err := c.Get("http://h/answer")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	<-ended
	c.Timeout = 10 * time.Millisecond
	_, err = c.Get("http://h/")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	<-ended
}

func TestTransportWithUnknownContentLength(t *testing.T) {
	c := through(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		assert.EqualValues(t, -1, r.ContentLength)
		_, _ = w.Write(bytes.ToUpper(body))
	})
	res, err := c.Post("http://h/", "", io.MultiReader(strings.NewReader("abc")))
	body, err := readAll(t, res, err)
	require.NoError(t, err)
	assert.Equal(t, "ABC", body)
	res, err = c.Post("http://h/", "", io.MultiReader(strings.NewReader("abc"), failingReader{}))
	_, err = readAll(t, res, err)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestInProcessServer(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	assert.Equal(t, "http://mockserver.invalid", srv.URL)
	status, body, err := try(t.Context(), srv.Client(), srv.URL, "m")
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.Equal(t, ok, body)
	srv.Expect(t, mockserver.WithID("m-0"))
	for url, want := range map[string]int{
		srv.URL + "/api/v1/ledger": 200, srv.URL + "/": 200, srv.URL + "/health": 200,
		"http://evil.example/api/v1/ledger": 421, // a foreign host name
	} {
		res, err := srv.Client().Get(url)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, want, res.StatusCode, url)
	}
}

// A handler that ignores its context and hangs after a partial response must not block
// the reader.
func TestTransportReturnsWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		client := through(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			<-release
		})
		client.Timeout = 3 * time.Second
		start := time.Now()
		res, err := client.Get("http://h/")
		body, err := readAll(t, res, err)
		assert.Equal(t, "half", body)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestMatchMayUseTheView(t *testing.T) {
	srv, _ := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/1")}, Jitter: func() float64 { return 0 }})
	srv.Fail(mockserver.Fault{Status: 500, Times: mockserver.Always, Match: func(*http.Request) bool {
		assert.Zero(t, srv.FaultsLeft())
		srv.ClearFaults()
		srv.Fail(mockserver.Fault{Status: 418})
		return true
	}})
	for _, want := range []int{200, 418, 200} { // during the first request, Match replaces the faults
		status, _, err := try(t.Context(), srv.Client(), srv.URL, "m")
		require.NoError(t, err)
		assert.Equal(t, want, status)
	}
	srv.Expect(t, mockserver.DeliveredTo("d"))
	srv.Clear()
	srv.FailDeliveries(mockserver.Fault{Reset: true, Match: func(*http.Request) bool {
		srv.Expect(t, mockserver.WithID("m2-0"))
		srv.FailDeliveries(mockserver.Fault{Status: 503})
		return true
	}})
	send(t, srv, track("m2", 1))
	assert.Len(t, srv.Expect(t, mockserver.DeliveredTo("d")).Attempts, 3)
	assert.Zero(t, srv.FaultsLeft())
}

func TestFaultTimesConcurrentSafe(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{InProcess: true})
	all := func(*http.Request) bool { return true }
	srv.Fail(mockserver.Fault{Status: 500, Times: 10, Match: all}, mockserver.Fault{Status: 503, Times: 5, Match: all})
	var statuses [600]atomic.Int32
	var senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() {
			for j := range 10 {
				status, _, err := try(t.Context(), srv.Client(), srv.URL, fmt.Sprint(i, "-", j))
				assert.NoError(t, err)
				statuses[status].Add(1)
			}
		})
	}
	senders.Wait()
	assert.EqualValues(t, []int32{10, 5, 25}, []int32{statuses[500].Load(), statuses[503].Load(), statuses[200].Load()})
}
