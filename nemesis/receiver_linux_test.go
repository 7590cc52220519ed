package main

import (
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A receiver is the webhooks of all destinations, one a path. It counts how often
// each call came and was answered 200.
type receiver struct {
	url    string
	answer atomic.Int64 // the status of each answer; 0: 200
	delay  atomic.Int64 // of each answer, a time.Duration
	pause  atomic.Int64 // the seconds of Retry-After in each answer, which is 429; 0: none

	mu      sync.Mutex                // guards what follows
	got     map[string]map[string]int // by destination and call
	refused []time.Time               // when requests were answered with a pause
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	r := &receiver{url: "http://127.0.0.1:" + port, got: map[string]map[string]int{}}
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	time.Sleep(time.Duration(r.delay.Load()))
	if seconds := r.pause.Load(); seconds > 0 {
		r.mu.Lock()
		r.refused = append(r.refused, time.Now())
		r.mu.Unlock()
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if status := int(r.answer.Load()); status != 0 {
		w.WriteHeader(status)
		return
	}
	name, id := strings.TrimPrefix(req.URL.Path, "/"), req.Header.Get("X-Message-Id")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got[name] == nil {
		r.got[name] = map[string]int{}
	}
	r.got[name][id]++
}

// refusals returns when requests were answered with a pause.
func (r *receiver) refusals() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}

// times returns how often a call came to a destination.
func (r *receiver) times(destination, id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[destination][id]
}

// distinct counts the calls that came to a destination.
func (r *receiver) distinct(destination string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got[destination])
}

func (r *receiver) all(destination string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.got[destination])
}

// total counts the deliveries, and repeats those of calls that had come before.
func (r *receiver) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, calls := range r.got {
		for _, times := range calls {
			n += times
		}
	}
	return n
}

func (r *receiver) repeats() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, calls := range r.got {
		for _, times := range calls {
			n += times - 1
		}
	}
	return n
}
