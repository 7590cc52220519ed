package sender

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var discardLog = log.New(io.Discard, "", 0)

// listen serves connections one after another, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// rawReceiver responds to the first request of each connection with fixed bytes, and records the
// request.
func rawReceiver(t *testing.T, response string) (url string, request func() string) {
	t.Helper()
	got := make(chan string, 100)
	addr := listen(t, func(conn net.Conn) {
		got <- readRequest(conn)
		io.WriteString(conn, response)
	})
	return "http://" + addr, func() string { return <-got }
}

// readRequest reads one request.
func readRequest(conn net.Conn) string {
	var raw bytes.Buffer
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &raw)))
	if err != nil {
		return err.Error()
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err.Error()
	}
	return raw.String()
}

func loopbackSender(t *testing.T) *Sender {
	t.Helper()
	return newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}})
}

// TestRequestBytes checks that the bytes on the wire contain the documented headers.
func TestRequestBytes(t *testing.T) {
	url, request := rawReceiver(t, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	body := []byte(`{"version":1,"type":"identify","userId":"u","traits":{},"timestamp":"2024-05-17T10:20:30.123Z"}`)
	a := loopbackSender(t).Send(t.Context(), Request{
		Endpoint:  webhook.Endpoint{URL: url + "/hook/é?a=b%20c#fragment", Headers: map[string]string{"x-api-key": "k=1", "Authorization": "Bearer t"}},
		Body:      body,
		Signature: webhook.Sign("secret", body),
		MessageID: "0192f0f4-7b0c-7000-8000-000000000001",
		Number:    3,
	})
	checkAttempt(t, a, webhook.Success, "", "")
	want := strings.ReplaceAll(`POST /hook/%C3%A9?a=b%20c HTTP/1.1
Host: `+strings.TrimPrefix(url, "http://")+`
User-Agent: analytics-go/1.0
Content-Length: 95
Authorization: Bearer t
Content-Type: application/json
X-Api-Key: k=1
X-Attempt: 3
X-Message-Id: 0192f0f4-7b0c-7000-8000-000000000001
X-Signature: `+webhook.Sign("secret", body)+`

`, "\n", "\r\n") + string(body)
	if got := request(); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	wantHeader := http.Header{
		"User-Agent": {"analytics-go/1.0"}, "Authorization": {"Bearer t"}, "Content-Type": {"application/json"}, "X-Api-Key": {"k=1"},
		"X-Attempt": {"3"}, "X-Message-Id": {"0192f0f4-7b0c-7000-8000-000000000001"}, "X-Signature": {webhook.Sign("secret", body)},
	}
	if !reflect.DeepEqual(a.RequestHeader, wantHeader) || !bytes.Equal(a.RequestBody, body) {
		t.Errorf("the attempt has %v %s", a.RequestHeader, a.RequestBody)
	}
	if a.Number != 3 || a.URL != url+"/hook/é?a=b%20c#fragment" || a.Status != 204 || a.Duration <= 0 || time.Since(a.Time) > time.Hour {
		t.Errorf("the attempt is %+v", a)
	}
}

func TestRequestWithoutSecret(t *testing.T) {
	url, request := rawReceiver(t, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	a := loopbackSender(t).Send(t.Context(), Request{Endpoint: webhook.Endpoint{URL: url}, Body: []byte(`{}`), Number: 1})
	checkAttempt(t, a, webhook.Success, "", "")
	got := request()
	for _, name := range []string{webhook.SignatureHeader, webhook.MessageIDHeader, "Accept-Encoding"} {
		if strings.Contains(got, name) {
			t.Errorf("sent %s:\n%s", name, got)
		}
	}
	if !strings.Contains(got, "\r\nUser-Agent: analytics-go/1.0\r\n") {
		t.Errorf("sent\n%s", got)
	}
}

// TestStandardHeaders compares the headers of each setting with the documented headers.
func TestStandardHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock in the bubble starts in 2000
		now := time.Now()
		sign := func(secret string) string {
			signature, err := webhook.SignStandard(secret, "m1", now, []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			return signature
		}
		ours := http.Header{"User-Agent": {"analytics-go/1.0"}, "Content-Type": {"application/json"}, "X-Attempt": {"1"}, "X-Message-Id": {"m1"}}
		standard := http.Header{"Webhook-Id": {"m1"}, "Webhook-Timestamp": {"946684800"}, "Webhook-Signature": {sign("new")}}
		both := http.Header{"Webhook-Id": {"m1"}, "Webhook-Timestamp": {"946684800"}, "Webhook-Signature": {sign("new") + " " + sign("old")}}
		service := http.Header{"X-Signature": {webhook.Sign("new", []byte("{}"))}}
		for _, tt := range []struct {
			name     string
			settings webhook.Settings
			want     []http.Header
		}{
			{"no secret", webhook.Settings{}, nil},
			{"by default", webhook.Settings{SharedSecret: "new"}, []http.Header{service}},
			{"service", webhook.Settings{SharedSecret: "new", Signature: webhook.SignatureService}, []http.Header{service}},
			{"standard", webhook.Settings{SharedSecret: "new", Signature: webhook.SignatureStandard}, []http.Header{standard}},
			{"both, with two secrets", webhook.Settings{SharedSecret: "new", PreviousSecret: "old", Signature: webhook.SignatureBoth}, []http.Header{service, both}},
		} {
			r, err := NewRequest(&tt.settings, Content{ID: "m1", Body: []byte("{}"), Number: 1, At: time.Now()})
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			got, err := r.Header()
			want := ours.Clone()
			for _, h := range tt.want {
				maps.Copy(want, h)
			}
			if !reflect.DeepEqual(got, want) || err != nil {
				t.Errorf("%s: %v, %v; want %v", tt.name, got, err, want)
			}
		}
		if _, err := NewRequest(&webhook.Settings{SharedSecret: "whsec_?", Signature: webhook.SignatureStandard}, Content{ID: "m1"}); err == nil {
			t.Error("signed with an invalid secret")
		}
	})
}

func TestResponses(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	long := strings.Repeat("0123456789abcdef", 1<<12) // 64 KB
	for _, tt := range []struct {
		name, response string
		verdict        webhook.Verdict
		reason         webhook.Reason
		text           string
		status         int
		body           string
	}{
		{"200", ok + "Content-Length: 2\r\n\r\nok", webhook.Success, "", "", 200, "ok"},
		{"202 until the end", "HTTP/1.0 202 Accepted\r\n\r\nfine", webhook.Success, "", "", 202, "fine"},
		{"299", "HTTP/1.1 299 Odd\r\nConnection: close\r\n\r\n", webhook.Success, "", "", 299, ""},
		{"chunked", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n", webhook.Success, "", "", 200, "ok!"},
		{"early hints first", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok", webhook.Success, "", "", 200, "ok"},
		{"gzip stays packed", ok + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", webhook.Success, "", "", 200, "\x1f\x8b\x08"},
		{"as long as is kept", ok + "\r\n" + long[:KeptBody], webhook.Success, "", "", 200, long[:KeptBody]},
		{"one byte longer", ok + "\r\n" + long[:KeptBody+1], webhook.Success, "", "", 200, long[:KeptBody]},
		{"long", ok + "\r\n" + long + long, webhook.Success, "", "", 200, long[:KeptBody]},
		{"101", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nforever", webhook.Permanent, webhook.ReasonStatus, "responded with 101 (Switching Protocols)", 101, ""},
		{"300", "HTTP/1.1 300 Multiple Choices\r\nConnection: close\r\n\r\n", webhook.Permanent, webhook.ReasonRedirect, "redirects are not followed", 300, ""},
		{"302 to a URL that is none", "HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nConnection: close\r\n\r\n", webhook.Permanent, webhook.ReasonRedirect, `to "http://[::1": redirects are not followed`, 302, ""},
		{"307 to nowhere", "HTTP/1.1 307 X\r\nConnection: close\r\n\r\n", webhook.Permanent, webhook.ReasonRedirect, `to "": redirects are not followed`, 307, ""},
		{"304", "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n", webhook.Permanent, webhook.ReasonRedirect, "responded with 304", 304, ""},
		{"400", "HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!", webhook.Permanent, webhook.ReasonStatus, "responded with 400 (Bad Request)", 400, "no!"},
		{"404", "HTTP/1.0 404 X\r\n\r\n", webhook.Permanent, webhook.ReasonStatus, "responded with 404 (Not Found)", 404, ""},
		{"408", "HTTP/1.0 408 X\r\n\r\n", webhook.Temporary, webhook.ReasonStatus, "responded with 408", 408, ""},
		{"410", "HTTP/1.0 410 X\r\n\r\n", webhook.Permanent, webhook.ReasonStatus, "responded with 410", 410, ""},
		{"425", "HTTP/1.0 425 X\r\n\r\n", webhook.Temporary, webhook.ReasonStatus, "responded with 425", 425, ""},
		{"429", "HTTP/1.0 429 X\r\n\r\n", webhook.Temporary, webhook.ReasonStatus, "responded with 429", 429, ""},
		{"500", "HTTP/1.0 500 X\r\n\r\noops", webhook.Temporary, webhook.ReasonStatus, "responded with 500 (Internal Server Error)", 500, "oops"},
		{"501", "HTTP/1.0 501 X\r\n\r\n", webhook.Temporary, webhook.ReasonStatus, "responded with 501", 501, ""},
		{"599", "HTTP/1.0 599 X\r\n\r\n", webhook.Temporary, webhook.ReasonStatus, "responded with 599", 599, ""},
		{"600", "HTTP/1.0 600 X\r\n\r\n", webhook.Permanent, webhook.ReasonStatus, "responded with 600", 600, ""},
		{"closed without a word", "", webhook.Temporary, webhook.ReasonConnection, "closed the connection without a response", 0, ""},
		{"no HTTP", "220 mail.example ESMTP\r\n", webhook.Temporary, webhook.ReasonConnection, "malformed HTTP", 0, ""},
		{"header breaks off", "HTTP/1.1 200 OK\r\nContent-Le", webhook.Temporary, webhook.ReasonConnection, "malformed MIME header", 0, ""},
		{"body breaks off", ok + "Content-Length: 10\r\n\r\nhalf", webhook.Temporary, webhook.ReasonConnection, "unexpected EOF", 200, "half"},
		{"chunk breaks off", ok + "Transfer-Encoding: chunked\r\n\r\nff\r\nhalf", webhook.Temporary, webhook.ReasonConnection, "unexpected EOF", 200, "half"},
		{"bad chunk", ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", webhook.Temporary, webhook.ReasonConnection, "invalid byte in chunk length", 200, ""},
		{"endless header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), webhook.Temporary, webhook.ReasonConnection, "longer than 65536 bytes", 0, ""},
		{"endless hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <abcdefghijklmnopqrstuvwxyz>\r\n\r\n", 10_000), webhook.Temporary, webhook.ReasonConnection, "complete response", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, _ := rawReceiver(t, tt.response)
			a := post(t, loopbackSender(t), url)
			checkAttempt(t, a, tt.verdict, tt.reason, tt.text)
			if a.Status != tt.status || string(a.ResponseBody) != tt.body {
				t.Errorf("status %d, body %.100q; want %d, %.100q", a.Status, a.ResponseBody, tt.status, tt.body)
			}
		})
	}
}

// The server redirects to another server, which must not receive a request.
func TestRedirectToLoopback(t *testing.T) {
	target := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, target.URL+"/login", status)
		})
		a := post(t, loopbackSender(t), r.URL)
		checkAttempt(t, a, webhook.Permanent, webhook.ReasonRedirect, `to "`+target.URL+`/login": redirects are not followed`)
		if n := r.requests.Load(); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
	if n := target.conns.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestRetryAfterOfResponse(t *testing.T) {
	for _, tt := range []struct {
		status int
		value  string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{503, "Sat, 01 Jan 2000 00:01:00 GMT", time.Minute},
		{429, "999999", webhook.Window},
		{429, "", 0},
		{400, "120", 0},
		{200, "120", 0},
		{302, "120", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestSender(t, webhook.SenderConfig{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: tt.status, Header: http.Header{"Retry-After": {tt.value}}, Body: http.NoBody}, nil
			})})
			now := time.Now() // 2000-01-01
			a := post(t, s, "http://example.com/")
			if a.RetryAfter != tt.want || !a.Time.Equal(now) {
				t.Errorf("%d, Retry-After %q: %v at %v, want %v", tt.status, tt.value, a.RetryAfter, a.Time, tt.want)
			}
		})
	}
}

func TestResponseHeaderIsBounded(t *testing.T) {
	var fields strings.Builder
	for i := range 100 {
		fmt.Fprintf(&fields, "X-Field-%02d: %s\r\n", i, strings.Repeat("v", 100))
	}
	url, _ := rawReceiver(t, "HTTP/1.0 200 OK\r\n"+fields.String()+"\r\n")
	a := post(t, loopbackSender(t), url)
	checkAttempt(t, a, webhook.Success, "", "")
	size := 0
	for name, values := range a.ResponseHeader {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size > keptHeader || size < keptHeader-len("X-Field-00") {
		t.Errorf("%d bytes of the header", size)
	}
	if v := a.ResponseHeader.Get("X-Field-00"); len(v) != 100 {
		t.Errorf("the first field is %q", v)
	}
}

// After every response, the next request uses the same connection.
func TestConnectionsAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{200, 204, 302, 400, 429, 500, 503}
		conns := 0
		s := virtualSender(t, func(c net.Conn) {
			defer c.Close()
			conns++
			in := bufio.NewReader(c)
			for n := 0; ; n++ {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				answer := http.Response{StatusCode: statuses[n%len(statuses)], ProtoMajor: 1, ProtoMinor: 1, Request: r}
				if answer.StatusCode != 204 {
					answer.Body = io.NopCloser(bytes.NewReader(make([]byte, n*2000)))
					answer.ContentLength = int64(n * 2000)
					if n%2 == 0 {
						answer.ContentLength, answer.TransferEncoding = -1, []string{"chunked"}
					}
				}
				answer.Write(c)
			}
		})
		for range 3 * len(statuses) {
			if a := post(t, s, "http://receiver.example/"); a.Status == 0 {
				t.Fatal(a.Error)
			}
		}
		if conns != 1 {
			t.Errorf("%d connections for %d requests", conns, 3*len(statuses))
		}
	})
}

func TestSenderClose(t *testing.T) {
	closed := make(chan struct{})
	r := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	r.Start()
	defer r.Close()
	s := loopbackSender(t)
	checkAttempt(t, post(t, s, r.URL), webhook.Success, "", "")
	s.Close()
	s.Close()
	<-closed
}

func TestSendConcurrentSafe(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if webhook.Verify("secret", body, req.Header.Get(webhook.SignatureHeader)) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
		w.Write(body)
	})
	s := loopbackSender(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				body := []byte(fmt.Sprintf(`{"i":%d,"j":%d}`, i, j))
				a := s.Send(t.Context(), Request{
					Endpoint: webhook.Endpoint{URL: r.URL, Headers: map[string]string{"X-I": fmt.Sprint(i)}},
					Body:     body, Signature: webhook.Sign("secret", body), MessageID: "m", Number: 1,
				})
				if a.Verdict != webhook.Success || !bytes.Equal(a.ResponseBody, body) {
					t.Errorf("%s returned as %s: %s", body, a.ResponseBody, a.Error)
				}
			}
		})
	}
	wg.Wait()
}

func TestInvalidRequests(t *testing.T) {
	s := loopbackSender(t)
	for _, url := range []string{"", "example.com", "ftp://example.com", "http://", "http://exa mple.com", "https://[::1", "http:///x", "mailto:a@b"} {
		a := post(t, s, url)
		checkAttempt(t, a, webhook.Permanent, webhook.ReasonRequest, "invalid URL: ")
		if a.Status != 0 || a.URL != url {
			t.Errorf("%+v", a)
		}
	}
	for name, value := range map[string]string{"": "x", "a b": "x", "X": "a\r\nb", "host": "x", "Transfer-Encoding": "chunked", "x-signature": "x"} {
		a := s.Send(t.Context(), Request{Endpoint: webhook.Endpoint{URL: "http://127.0.0.1:1", Headers: map[string]string{name: value}}})
		checkAttempt(t, a, webhook.Permanent, webhook.ReasonRequest, fmt.Sprintf("invalid static header %q", name))
	}
	for _, id := range []string{"a\nb", "\x00", "a\x1f", "\x7f"} {
		a := s.Send(t.Context(), Request{Endpoint: webhook.Endpoint{URL: "http://127.0.0.1:1"}, MessageID: id})
		checkAttempt(t, a, webhook.Permanent, webhook.ReasonRequest, fmt.Sprintf("the messageId %q cannot be sent in a header", id))
	}
}

func TestConnectionRefused(t *testing.T) {
	a := post(t, loopbackSender(t), "http://127.0.0.1:"+closedPort(t))
	checkAttempt(t, a, webhook.Temporary, webhook.ReasonConnection, "could not connect: ")
	checkAttempt(t, a, webhook.Temporary, webhook.ReasonConnection, "refused")
	if !a.NotConnected {
		t.Error("NotConnected is not set")
	}
}

// TestNotConnected checks Attempt.NotConnected.
func TestNotConnected(t *testing.T) {
	// Initialize the global state of the resolver outside the bubble.
	_, _ = (&net.Resolver{PreferGo: true}).LookupHost(t.Context(), "localhost")
	synctest.Test(t, func(t *testing.T) {
		s := loopbackSender(t)
		transport := s.transport.(*http1.Transport)
		dial := func(d func(context.Context) (net.Conn, error)) {
			transport.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) }
		}
		dialer := (&guard{dialer: net.Dialer{Timeout: connectTimeout(webhook.Timeout), Resolver: &net.Resolver{
			PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		}}}).dial
		dial(func(ctx context.Context) (net.Conn, error) { return dialer(ctx, "tcp", "silent.example:80") })
		a := post(t, s, "http://silent.example/")
		checkAttempt(t, a, webhook.Temporary, webhook.ReasonDNS, "the host silent.example did not resolve")
		if !a.NotConnected || a.Duration != connectTimeout(webhook.Timeout) {
			t.Errorf("a name that does not resolve: connected %v, after %v", !a.NotConnected, a.Duration)
		}
		dial(func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}
		})
		a = post(t, s, "http://dropped.example/")
		checkAttempt(t, a, webhook.Temporary, webhook.ReasonTimeout, "could not connect within 4s")
		if !a.NotConnected {
			t.Error("NotConnected is not set for an address without a response")
		}
		for name, serve := range map[string]func(net.Conn){
			"hangs":  func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
			"resets": func(c net.Conn) { readRequest(c); _ = c.Close() },
		} {
			if a := post(t, virtualSender(t, serve), "http://receiver.example/"); a.NotConnected || a.Verdict != webhook.Temporary {
				t.Errorf("a receiver that %s: %+v", name, a)
			}
		}
	})
}

func TestSendCanceled(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-leave
	})
	defer close(leave)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	a := loopbackSender(t).Send(ctx, Request{Endpoint: webhook.Endpoint{URL: r.URL}, Body: []byte(`{}`)})
	checkAttempt(t, a, webhook.Temporary, webhook.ReasonCanceled, "canceled before")
}

// TestHungReceiver uses a real socket with a server that never responds. Connecting is fast even on
// a busy machine.
func TestHungReceiver(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			checkAttempt(t, post(t, loopbackSender(t), scheme+"://"+l.Addr().String()), webhook.Temporary, webhook.ReasonTimeout, "no response within 5s")
		})
	}
}

// virtualSender returns a Sender that connects to servers through pipes, for synctest.
func virtualSender(t *testing.T, serve func(net.Conn)) *Sender {
	t.Helper()
	var servers sync.WaitGroup
	t.Cleanup(servers.Wait) // after the sender is closed
	s := newTestSender(t, webhook.SenderConfig{})
	s.transport.(*http1.Transport).Dial = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		servers.Go(func() { serve(server) })
		return client, nil
	}
	return s
}

// TestTimeout delays each part of an exchange in virtual time.
func TestTimeout(t *testing.T) {
	drip := func(conn net.Conn, pause time.Duration) {
		for {
			time.Sleep(pause)
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
		}
	}
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name    string
		serve   func(net.Conn)
		verdict webhook.Verdict
		text    string
		took    time.Duration
		kept    string
	}{
		{"never reads", func(net.Conn) {}, webhook.Temporary, "no response within 5s", webhook.Timeout, ""},
		{"never answers", func(c net.Conn) { io.Copy(io.Discard, c) }, webhook.Temporary, "no response within 5s", webhook.Timeout, ""},
		{"drips a header", func(c net.Conn) {
			readRequest(c)
			io.WriteString(c, ok+"X: ")
			drip(c, time.Second)
		}, webhook.Temporary, "no response within 5s", webhook.Timeout, ""},
		{"hangs in the body", func(c net.Conn) {
			readRequest(c)
			io.WriteString(c, ok+"Content-Length: 3\r\n\r\nab")
		}, webhook.Temporary, "responded with 200 (OK), but the response did not end within 5s", webhook.Timeout, "ab"},
		{"drips a body", func(c net.Conn) {
			readRequest(c)
			io.WriteString(c, ok+"\r\n")
			drip(c, 2*time.Second)
		}, webhook.Temporary, "did not end within 5s", webhook.Timeout, "xx"},
		{"floods a body", func(c net.Conn) {
			readRequest(c)
			io.WriteString(c, ok+"\r\n")
			for {
				if _, err := c.Write(bytes.Repeat([]byte("y"), 4096)); err != nil {
					return
				}
			}
		}, webhook.Success, "", 0, strings.Repeat("y", KeptBody)},
		{"just in time", func(c net.Conn) {
			readRequest(c)
			time.Sleep(4 * time.Second)
			io.WriteString(c, ok+"Content-Length: 2\r\n\r\n")
			time.Sleep(time.Second - 1)
			io.WriteString(c, "ok")
		}, webhook.Success, "", webhook.Timeout - 1, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtualSender(t, tt.serve)
				a := post(t, s, "http://hook.example/")
				reason := webhook.ReasonTimeout
				if tt.verdict == webhook.Success {
					reason = ""
				}
				checkAttempt(t, a, tt.verdict, reason, tt.text)
				if a.Duration != tt.took || string(a.ResponseBody) != tt.kept {
					t.Errorf("took %v, kept %.20q; want %v, %.20q", a.Duration, a.ResponseBody, tt.took, tt.kept)
				}
			})
		})
	}
}

// An attempt ends at the earlier of the caller's deadline and the Sender's timeout.
func TestDeadlineOfCaller(t *testing.T) {
	for _, d := range []time.Duration{time.Second, webhook.Timeout, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := virtualSender(t, func(c net.Conn) { io.Copy(io.Discard, c) })
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			a := s.Send(ctx, Request{Endpoint: webhook.Endpoint{URL: "http://hook.example"}})
			checkAttempt(t, a, webhook.Temporary, webhook.ReasonTimeout, "no response")
			if a.Duration != min(d, webhook.Timeout) {
				t.Errorf("with %v, it took %v", d, a.Duration)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCustomTransport(t *testing.T) {
	fail := errors.New("broken on purpose")
	s := newTestSender(t, webhook.SenderConfig{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "broken.example" {
			return nil, fail
		}
		return &http.Response{StatusCode: 202, Body: http.NoBody}, nil
	})})
	checkAttempt(t, post(t, s, "https://10.0.0.1/"), webhook.Success, "", "")
	checkAttempt(t, post(t, s, "https://broken.example/"), webhook.Temporary, webhook.ReasonConnection, "broken on purpose")

	// After its context is done, a transport may return any error.
	synctest.Test(t, func(t *testing.T) {
		s := newTestSender(t, webhook.SenderConfig{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, fail
		})})
		checkAttempt(t, post(t, s, "https://hung.example/"), webhook.Temporary, webhook.ReasonTimeout, "no response within 5s")
	})
}

func TestAttemptJSON(t *testing.T) {
	url, _ := rawReceiver(t, "HTTP/1.0 503 X\r\nRetry-After: 7\r\n\r\n\xff busy")
	a := post(t, loopbackSender(t), url)
	a.Time = a.Time.UTC().Round(0)
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var back webhook.Attempt
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, a) {
		t.Errorf("%s\nis %+v, error %v\nwant %+v", data, back, err, a)
	}
	for _, part := range []string{`"verdict":"temporary"`, `"reason":"status"`, `"status":503`, `"retryAfter":7000000000`} {
		if !bytes.Contains(data, []byte(part)) {
			t.Errorf("%s does not contain %s", data, part)
		}
	}
}
