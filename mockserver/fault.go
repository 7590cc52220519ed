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

// A Fault is something that goes wrong on purpose with requests to the collector,
// see [View.Fail], or with its requests to webhooks, see [View.FailDeliveries].
// Its fields can be combined: they take effect in the order in which they stand
// here. One with a Delay alone lets the request go on after it.
type Fault struct {
	// Times is how many requests it befalls. Defaults to 1; Always is all there are
	// until ClearFaults.
	Times int
	// Match picks the requests. It must not read their bodies. It may be called by
	// many goroutines at once, and may use the View, but not wait for the request
	// that it is asked about, as Close does. Defaults to the requests that bring
	// calls, and to all deliveries.
	Match func(*http.Request) bool
	// Destination picks deliveries to one destination. Defaults to all.
	Destination string

	// Delay is how long nothing happens. A delivery is given up after the Sender's
	// time-out.
	Delay time.Duration
	// AnswerOnly lets the request be handled as always, so that only its answer is
	// lost: the calls are stored, or the webhook has taken the delivery.
	AnswerOnly bool
	// Hang never answers: the sender has to give up. A delivery is given up after
	// the Sender's time-out.
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

// Always is the Times of a Fault that stands until ClearFaults.
const Always = -1

// answers reports whether the fault ends the request.
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

// answer writes the fault's answer with a body, or breaks the connection without one.
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

// faults are those that wait for requests of one kind, in order.
type faults struct {
	mu      sync.Mutex // guards what follows
	waiting []*Fault
	met     map[string]int // requests that faults of a source befell; of "": those of any
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

// isOf reports whether the fault is of a view: of one source, or of all.
func (f *Fault) isOf(source string) bool { return source == "" || f.source == source }

// clear drops the faults of a view.
func (fs *faults) clear(source string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.waiting = slices.DeleteFunc(fs.waiting, func(f *Fault) bool { return f.isOf(source) })
}

// left counts the requests that faults of a view still wait for, without those that
// stand.
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

// take returns the first fault that befalls a request, or nil. The lock is not held
// while befalls asks a Match, which may use the View.
func (fs *faults) take(befalls func(*Fault) bool) *Fault {
	fs.mu.Lock()
	waiting := slices.Clone(fs.waiting)
	fs.mu.Unlock()
	for _, f := range waiting {
		if befalls(f) && fs.claim(f) {
			return f
		}
	}
	return nil
}

// claim counts one of a fault's requests. It is false if there is none left, since
// others were quicker, or if the fault was dropped meanwhile.
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

// metBy returns how many requests faults befell that may have been of a source, and for
// how many more such faults wait.
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

// forgetMet counts from zero again the requests that faults of a source befell, or any.
func (fs *faults) forgetMet(source string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if delete(fs.met, source); source == "" {
		clear(fs.met)
	}
}
