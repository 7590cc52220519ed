package mockserver

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Fault disturbs requests to the collector (see [View.Fail]) or requests to webhooks
// (see [View.FailDeliveries]). Its fields can be combined and take effect in the order of
// their declaration. After a Fault with only a Delay, the request continues normally.
type Fault struct {
	// Times is the number of requests affected. Defaults to 1. With Always, all
	// requests are affected until ClearFaults.
	Times int
	// Match selects requests. It must not read their bodies. It may be called
	// concurrently. It may use the View, but must not wait for the request it receives;
	// for example, it must not call Close. By default, a fault applies to requests with
	// calls, or to all deliveries.
	Match func(*http.Request) bool
	// Destination selects deliveries to one destination. Defaults to all.
	Destination string

	// Delay is the time before the fault has any other effect. A delivery fails after
	// the Sender's timeout.
	Delay time.Duration
	// AnswerOnly handles the request normally and discards only the response: the
	// calls are stored, or the webhook has received the delivery. If no other field
	// sets a response, the connection is reset.
	AnswerOnly bool
	// Hang never responds. A delivery fails after the Sender's timeout.
	Hang bool
	// Status is the response status. Defaults to 200 if there is a Body or a Header.
	Status int
	// Header is added to the response, for example {"Retry-After": {"1"}}.
	Header http.Header
	// Body is the response body, sent unchanged; it need not be JSON. Defaults to an
	// error in the tracking API's format, and for deliveries to an empty body.
	Body string
	// Reset closes the connection with a reset, after sending the Body if there is one.
	Reset bool

	source string // the View's source; empty for all
}

// Always is the value of Times for a Fault that remains until ClearFaults.
const Always = -1

// answers reports whether the fault replaces the normal response.
func (f *Fault) answers() bool {
	return f.AnswerOnly || f.Hang || f.Status != 0 || f.Header != nil || f.Body != "" || f.Reset
}

// status returns the response status, or 0 if the connection is reset first.
func (f *Fault) status() int {
	switch {
	case f.Status != 0:
		return f.Status
	case f.Header != nil, f.Body != "":
		return http.StatusOK
	}
	return 0
}

// answer writes the response, or resets the connection.
func (f *Fault) answer(w http.ResponseWriter, body string) {
	if f.status() == 0 {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), f.Header)
	if f.Reset {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	}
	w.WriteHeader(f.status())
	_, _ = io.WriteString(w, body)
	if f.Reset {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// faults is a queue of faults for requests of one kind.
type faults struct {
	mu      sync.Mutex // guards the fields below
	waiting []*Fault
	met     map[string]int // number of affected requests by source; "" counts faults for all sources
}

func (fs *faults) add(source string, add []Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range add {
		f.source = source
		if f.Times == 0 {
			f.Times = 1
		}
		f.Header = f.Header.Clone()
		fs.waiting = append(fs.waiting, &f)
	}
}

// isOf reports whether the fault belongs to the view of a source.
func (f *Fault) isOf(source string) bool { return source == "" || f.source == source }

// clear removes the faults of a view.
func (fs *faults) clear(source string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.waiting = slices.DeleteFunc(fs.waiting, func(f *Fault) bool { return f.isOf(source) })
}

// left returns the number of requests that a view's faults will still affect. It does not
// count permanent faults.
func (fs *faults) left(source string) (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.waiting {
		if f.isOf(source) {
			n += max(f.Times, 0)
		}
	}
	return n
}

// take returns the first fault that applies to a request, or nil. No lock is held while
// applies calls a Match, because a Match may use the View.
func (fs *faults) take(applies func(*Fault) bool) *Fault {
	fs.mu.Lock()
	waiting := slices.Clone(fs.waiting)
	fs.mu.Unlock()
	for _, f := range waiting {
		if applies(f) && fs.claim(f) {
			return f
		}
	}
	return nil
}

// claim counts a request against f. It reports false if f has affected its last request
// or was removed in the meantime.
func (fs *faults) claim(f *Fault) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	i := slices.Index(fs.waiting, f)
	if i < 0 {
		return false
	}
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			fs.waiting = slices.Delete(fs.waiting, i, i+1)
		}
	}
	if fs.met == nil {
		fs.met = map[string]int{}
	}
	fs.met[f.source]++
	return true
}

// metBy returns the number of affected requests that may belong to a source, and the
// number of such requests that faults will still affect.
func (fs *faults) metBy(source string) (met, left int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	of := func(s string) bool { return source == "" || s == "" || s == source }
	for s, n := range fs.met {
		if of(s) {
			met += n
		}
	}
	for _, f := range fs.waiting {
		if of(f.source) {
			left += max(f.Times, 0)
		}
	}
	return met, left
}

// forgetMet resets a source's count of affected requests.
func (fs *faults) forgetMet(source string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if delete(fs.met, source); source == "" {
		clear(fs.met)
	}
}
