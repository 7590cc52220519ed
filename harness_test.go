package analytics_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// post is a received request.
type post struct {
	at     time.Time
	header http.Header
	url    string
	user   string
	pass   string
	raw    []byte // the decompressed body
	body   body
	err    error // the error of reading the body
	values int   // number of values that analytics.RequestValues returned
}

type body struct {
	Batch     []map[string]interface{} `json:"batch"`
	Context   map[string]interface{}   `json:"context"`
	MessageId string                   `json:"messageId"`
	SentAt    string                   `json:"sentAt"`
}

// answer is the response to a request. The zero value is a response with status 200.
type answer struct {
	status int
	header http.Header
	body   io.Reader
	err    error         // the connection fails with this error, without a response
	delay  time.Duration // the time before the response
	hang   bool          // the collector does not respond until the client cancels the request
}

// collector is an in-process http.RoundTripper. Without a network, tests can use a fake clock. It
// is safe for concurrent use.
type collector struct {
	// decide returns the response to request i, counted from 0. If decide is nil, the collector
	// accepts all requests.
	decide func(i int, p post) answer

	mu    sync.Mutex // guards posts
	posts []post
}

// always returns a collector that responds with a to each request.
func always(a answer) *collector { return &collector{decide: func(int, post) answer { return a }} }

// first returns a collector that responds with a to the first request, and with 200 to all others.
func first(a answer) *collector {
	return &collector{decide: when(a, func(i int, _ post) bool { return i == 0 })}
}

// when returns a function for collector.decide. It responds with a to requests that match meant, and
// with 200 to all others.
func when(a answer, meant func(i int, p post) bool) func(int, post) answer {
	return func(i int, p post) answer {
		if meant(i, p) {
			return a
		}
		return answer{}
	}
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	p := readPost(r)
	_ = r.Body.Close()
	c.mu.Lock()
	i := len(c.posts)
	c.posts = append(c.posts, p)
	c.mu.Unlock()
	var a answer
	if c.decide != nil {
		a = c.decide(i, p)
	}
	if a.delay > 0 {
		select {
		case <-time.After(a.delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if a.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.response(r), nil
}

func (a answer) response(r *http.Request) *http.Response {
	if a.status == 0 {
		a.status = 200
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	if a.body == nil {
		a.body = strings.NewReader(`{"success":true}`)
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Header: a.header,
		Body: io.NopCloser(a.body), ContentLength: -1, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

func readPost(r *http.Request) post {
	p := post{at: time.Now(), header: r.Header.Clone(), url: r.URL.String(), values: len(analytics.RequestValues(r.Context()))}
	p.user, p.pass, _ = r.BasicAuth()
	var src io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		if src, p.err = gzip.NewReader(r.Body); p.err != nil {
			return p
		}
	}
	if p.raw, p.err = io.ReadAll(src); p.err == nil {
		p.err = json.Unmarshal(p.raw, &p.body)
	}
	return p
}

func (c *collector) all() []post {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]post(nil), c.posts...)
}

// sizes returns the number of calls in each received request.
func (c *collector) sizes() (n []int) {
	for _, p := range c.all() {
		n = append(n, len(p.body.Batch))
	}
	return n
}

// taken returns how many received calls have each value of a field.
func (c *collector) taken(key string) map[string]int {
	n := map[string]int{}
	for _, p := range c.all() {
		for _, call := range p.body.Batch {
			s, _ := call[key].(string)
			n[s]++
		}
	}
	return n
}

// newClient returns a client that sends requests to c and writes its log to the test log.
func newClient(t testing.TB, c http.RoundTripper, cfg analytics.Config) *analytics.Client {
	t.Helper()
	cfg.HTTPClient = &http.Client{Transport: c}
	if cfg.Logger == nil {
		cfg.Logger = log.New(testLog{t}, "", 0)
	}
	client, err := analytics.NewWithConfig("write-key-0123456789", cfg)
	require.NoError(t, err)
	return client
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

// lines is a test log that is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count() int { return strings.Count(l.String(), "\n") }

func (l *lines) logger() *log.Logger { return log.New(l, "", 0) }

var errRefusedConn = errors.New("connection refused")

// track makes n track calls. Each event name consists of the prefix and a number.
func track(t testing.TB, client *analytics.Client, prefix string, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, client.Track(&analytics.Track{Event: name(prefix, i), UserId: "u"}))
	}
}

func name(prefix string, i int) string {
	return prefix + "-" + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
}

// requireSum checks that the counts of Stats add up.
func requireSum(t testing.TB, s analytics.Stats) {
	t.Helper()
	require.Equal(t, s.Accepted, s.Delivered+s.Dropped.Total()+s.Pending, "%+v", s)
}
