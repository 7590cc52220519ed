package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
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

// receiver serves the webhooks of all destinations, each at its own path. It counts how often it
// received each call and responded with 200.
type receiver struct {
	url    string
	answer atomic.Int64 // the status of all responses; 0 means 200
	delay  atomic.Int64 // the time before each response, as a time.Duration
	pause  atomic.Int64 // Retry-After in seconds; responses then have status 429; 0 means no pause
	bad    atomic.Int64 // percentage of requests that get a 503 response
	failed atomic.Int64 // number of requests that failed because of bad or answer
	order  bool         // check the order of calls; the load must have ManyUsers

	server  *http.Server              // nil while the receiver refuses connections
	mu      sync.Mutex                // guards the fields below
	last    map[string]int            // the number of each user's last delivered call; used if order is set
	busy    map[string]bool           // users that have a request in progress
	wrong   []string                  // violations of the order
	got     map[string]map[string]int // number of deliveries, keyed by destination and call
	refused []time.Time               // times of the responses that required a pause
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: map[string]map[string]int{}, last: map[string]int{}, busy: map[string]bool{}}
	port := r.listen(t, "0")
	r.url = "http://127.0.0.1:" + port
	t.Cleanup(func() { r.refuse() })
	return r
}

// listen starts to accept connections on a port and returns the port. Port 0 selects a free one.
func (r *receiver) listen(t *testing.T, port string) string {
	t.Helper()
	l, err := net.Listen("tcp", ":"+port)
	require.NoError(t, err)
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	r.server = &http.Server{Handler: r}
	go func(s *http.Server) { _ = s.Serve(l) }(r.server)
	return port
}

// refuse makes the receiver refuse connections until listen is called.
func (r *receiver) refuse() {
	if r.server != nil {
		_ = r.server.Close()
		r.server = nil
	}
}

// begin records the start of a request with a call. It returns a function that records the end of
// the request. The calls of a user must arrive one at a time. Each call must directly follow the
// previous one, or repeat an earlier call.
func (r *receiver) begin(id string) (end func(delivered bool)) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 12 {
		return func(bool) {}
	}
	user, n := fmt.Sprintf("%d.%d", raw[1], binary.BigEndian.Uint16(raw[10:])), int(binary.BigEndian.Uint64(raw[2:]))+1
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[user] {
		r.wrong = append(r.wrong, fmt.Sprintf("call %d of user %s arrived during another request", n, user))
	}
	if n > r.last[user]+1 {
		r.wrong = append(r.wrong, fmt.Sprintf("call %d of user %s arrived after call %d", n, user, r.last[user]))
	}
	r.busy[user] = true
	return func(delivered bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, user)
		if delivered {
			r.last[user] = n
		}
	}
}

// disorder returns the recorded violations of the order.
func (r *receiver) disorder() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wrong)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	if r.order {
		end := r.begin(req.Header.Get("X-Message-Id"))
		delivered := false
		defer func() { end(delivered) }()
		if r.answer.Load() == 0 && rand.Int64N(100) >= r.bad.Load() {
			delivered = true
		} else {
			r.failed.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
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

// refusals returns the times of the responses that required a pause.
func (r *receiver) refusals() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}

// times returns how often a call was delivered to a destination.
func (r *receiver) times(destination, id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[destination][id]
}

// distinct returns the number of different calls that were delivered to a destination.
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

// total returns the number of deliveries, including repeated ones.
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
