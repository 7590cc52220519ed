package mockserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Fault is something that goes wrong on purpose with requests to the collector,
// see [View.Fail], or with its requests to webhooks, see [View.FailDeliveries].
// Its fields can be combined: they take effect in the order in which they stand
// here. One with a Delay alone lets the request go on after it.
type Fault struct {
	// Times is how many requests it befalls. Defaults to 1; Always is all there are
	// until Heal.
	Times int
	// Match picks the requests. It must not read their bodies. It may be called by
	// many goroutines at once, and may use the View, but not wait for the request
	// that it is asked about, as Close and a ManualClock's Advance do. Defaults to
	// the requests that bring calls, and to all deliveries.
	Match func(*http.Request) bool
	// Destination picks deliveries to one destination. Defaults to all.
	Destination string

	// Delay is how long nothing happens, by the Clock of the Config.
	Delay time.Duration
	// AnswerOnly lets the request be handled as always, so that only its answer is
	// lost: the calls are stored, or the webhook has taken the delivery.
	AnswerOnly bool
	// Hang never answers: the sender has to give up. A delivery is given up after
	// the Sender's time-out by the Clock of the Config.
	Hang bool
	// Status is that of the answer. Defaults to 200 where there is a Body or a
	// Header.
	Status int
	// Header is sent with the answer, as in {"Retry-After": {"1"}}.
	Header http.Header
	// Body is that of the answer, as it stands: it need not be JSON. Defaults to an
	// error in the form of the tracking API, and to none for deliveries.
	Body string
	// Reset breaks the connection, after the Body if there is one.
	Reset bool

	source string // the View's; empty: any
}

// Always is the Times of a Fault that stands until Heal.
const Always = -1

// answers tells whether the fault ends the request.
func (f *Fault) answers() bool {
	return f.Hang || f.Status != 0 || f.Header != nil || f.Body != "" || f.Reset
}

// status of the answer; 0 where the connection breaks without one.
func (f *Fault) status() int {
	switch {
	case f.Status != 0:
		return f.Status
	case f.Header != nil, f.Body != "":
		return http.StatusOK
	}
	return 0
}

// faults are those that wait for requests, in order.
type faults struct {
	timeout time.Duration // of deliveries
	armed   atomic.Bool   // whether there may be any

	mu         sync.Mutex // guards what follows
	requests   []*Fault   // to the collector
	deliveries []*Fault
	met        map[string]int // requests to the collector that faults of a source befell; of "": those of any
}

// add appends to one of the lists.
func (fs *faults) add(list *[]*Fault, source string, add []Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range add {
		f.source = source
		if f.Times == 0 {
			f.Times = 1
		}
		f.Header = f.Header.Clone()
		*list = append(*list, &f)
	}
	fs.armed.Store(true)
}

// heal drops those that drop picks.
func (fs *faults) heal(drop func(*Fault) bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.requests = slices.DeleteFunc(fs.requests, drop)
	fs.deliveries = slices.DeleteFunc(fs.deliveries, drop)
	fs.armed.Store(len(fs.requests)+len(fs.deliveries) > 0)
}

// left counts the requests that faults still wait for, without those that stand.
func (fs *faults) left(pick func(*Fault) bool) (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range slices.Concat(fs.requests, fs.deliveries) {
		if pick(f) {
			n += max(f.Times, 0)
		}
	}
	return n
}

// take returns the first fault of a list that befalls a request, or nil. The lock
// is not held while befalls asks a Match, which may use the View.
func (fs *faults) take(list *[]*Fault, befalls func(*Fault) bool) *Fault {
	fs.mu.Lock()
	waiting := slices.Clone(*list)
	fs.mu.Unlock()
	for _, f := range waiting {
		if befalls(f) && fs.claim(list, f) {
			return f
		}
	}
	return nil
}

// claim counts one of a fault's requests. It is false if there is none left, since
// others were quicker, or if the fault was healed meanwhile.
func (fs *faults) claim(list *[]*Fault, f *Fault) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	i := slices.Index(*list, f)
	if i < 0 {
		return false
	}
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
	if list == &fs.requests {
		if fs.met == nil {
			fs.met = map[string]int{}
		}
		fs.met[f.source]++
	}
	return true
}

// metBy returns how many requests to the collector faults befell that may have been
// of a source, and for how many more such faults wait.
func (fs *faults) metBy(source string) (met, left int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	of := func(s string) bool { return source == "" || s == "" || s == source }
	for s, n := range fs.met {
		if of(s) {
			met += n
		}
	}
	for _, f := range fs.requests {
		if of(f.source) {
			left += max(f.Times, 0)
		}
	}
	return met, left
}

// forgetMet begins to count anew the requests that faults of a source befell, or any.
func (fs *faults) forgetMet(source string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if delete(fs.met, source); source == "" {
		clear(fs.met)
	}
}

// ServeHTTP serves the tracking API.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.faults.armed.Load() && c.misbehave(w, r) {
		return
	}
	c.serveTracking(w, r)
}

// misbehave lets a fault befall a request. It is false if the request is to be
// served all the same.
func (c *Collector) misbehave(w http.ResponseWriter, r *http.Request) bool {
	c.serving.begin()
	defer c.serving.end()
	e := findEndpoint(r.URL.Path)
	keys := keysOf(r)
	source, _ := c.sourceOf(cmp.Or(keys.basic, keys.other))
	f := c.faults.take(&c.faults.requests, func(f *Fault) bool {
		switch {
		case e.kind == noEndpoint, f.source != "" && f.source != source:
			return false
		case f.Match != nil:
			return f.Match(r)
		}
		return r.Method == http.MethodPost && (e.kind == batchEndpoint || e.kind == callEndpoint)
	})
	if f == nil {
		return false
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if f.Delay > 0 && c.serving.sleep(ctx, c.clock, f.Delay) != nil {
		panic(http.ErrAbortHandler)
	}
	if !f.answers() {
		c.serveTracking(w, r)
		return true
	}
	if f.AnswerOnly {
		c.serveTracking(&discardResponse{header: http.Header{}}, r)
	}
	allowOrigin(w, r)
	f.answer(ctx, c, w, r)
	return true
}

// answer writes the fault's answer, or none.
func (f *Fault) answer(ctx context.Context, c *Collector, w http.ResponseWriter, r *http.Request) {
	// net/http sees that a sender has hung up only once its body is read.
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, int64(c.limits.BodyBytes)+packedSlack))
	if f.Hang {
		c.serving.hang(ctx)
		panic(http.ErrAbortHandler)
	}
	if f.status() == 0 {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h["Content-Type"] = contentJSON
	maps.Copy(h, f.Header)
	body := f.Body
	if body == "" && f.Status >= 400 {
		body = `{"success":false,"code":"fault","message":"a fault of the test","error":"a fault of the test"}` + "\n"
	}
	if f.Reset {
		h.Set("Content-Length", strconv.Itoa(len(body)+1))
	}
	w.WriteHeader(f.status())
	_, _ = io.WriteString(w, body)
	if f.Reset {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// discardResponse takes an answer that nobody gets.
type discardResponse struct{ header http.Header }

func (d *discardResponse) Header() http.Header         { return d.header }
func (d *discardResponse) Write(b []byte) (int, error) { return len(b), nil }
func (d *discardResponse) WriteHeader(int)             {}

// wrap lets faults befall the requests to webhooks.
func (fs *faults) wrap(next http.RoundTripper) http.RoundTripper { return &faultyTransport{fs, next} }

type faultyTransport struct {
	faults *faults
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	by, ok := deliveryOf(r.Context())
	if !ok {
		return t.next.RoundTrip(r)
	}
	f := t.faults.take(&t.faults.deliveries, func(f *Fault) bool {
		return (f.Destination == "" || f.Destination == by.Destination) && (f.source == "" || f.source == by.Source) && (f.Match == nil || f.Match(r))
	})
	if f == nil {
		return t.next.RoundTrip(r)
	}
	if f.Delay > 0 {
		if err := t.wait(r, f.Delay); err != nil {
			return nil, err
		}
	}
	if !f.answers() {
		return t.next.RoundTrip(r)
	}
	if f.AnswerOnly {
		if res, err := t.next.RoundTrip(r); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, webhook.KeptBody))
			_ = res.Body.Close()
		}
	}
	if f.Hang {
		return nil, t.wait(r, t.faults.timeout)
	}
	return f.receive(r)
}

// wait waits as long as a delivery may take.
func (t *faultyTransport) wait(r *http.Request, d time.Duration) error {
	err := sleep(r.Context(), min(d, t.faults.timeout))
	if err == nil && d >= t.faults.timeout {
		err = context.DeadlineExceeded
	}
	return err
}

// receive returns the fault's answer to a delivery.
func (f *Fault) receive(r *http.Request) (*http.Response, error) {
	if f.status() == 0 {
		return nil, syscall.ECONNRESET
	}
	body := io.Reader(bytes.NewReader([]byte(f.Body)))
	if f.Reset {
		body = io.MultiReader(body, brokenReader{})
	}
	header := f.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		Status: strconv.Itoa(f.status()) + " " + http.StatusText(f.status()), StatusCode: f.status(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(body), ContentLength: -1, Request: r,
	}, nil
}

var errBroken = errors.New("the connection was reset")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }
