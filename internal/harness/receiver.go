package harness

import (
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"
)

// A Receiver is a webhook endpoint that records the calls it receives.
type Receiver struct {
	*httptest.Server
	Got   atomic.Int64 // number of calls with response 200, including duplicates
	Again atomic.Int64 // number of duplicates

	answer atomic.Pointer[http.HandlerFunc] // replaces the default handler; nil selects the default

	shards [64]receiverShard
}

type receiverShard struct {
	mu   sync.Mutex // guards seen
	seen map[[12]byte]time.Time
}

// NewReceiver starts a receiver.
func NewReceiver() *Receiver {
	r := &Receiver{}
	for i := range r.shards {
		r.shards[i].seen = map[[12]byte]time.Time{}
	}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = nil
	r.Start()
	return r
}

// Answer replaces the receiver's handler. A nil handler restores the default, which accepts all
// calls.
func (r *Receiver) Answer(h http.HandlerFunc) {
	if h == nil {
		r.answer.Store(nil)
		return
	}
	r.answer.Store(&h)
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h := r.answer.Load(); h != nil {
		(*h)(w, req)
		return
	}
	now := time.Now()
	_, _ = io.Copy(io.Discard, req.Body)
	var id [12]byte
	if n, err := hex.Decode(id[:], []byte(req.Header.Get("X-Message-Id"))); err != nil || n != len(id) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s := r.shard(id)
	s.mu.Lock()
	if _, again := s.seen[id]; again {
		r.Again.Add(1)
	} else {
		s.seen[id] = now
	}
	s.mu.Unlock()
	r.Got.Add(1)
}

func (r *Receiver) shard(id [12]byte) *receiverShard {
	return &r.shards[(id[9]^id[11]^id[1])%byte(len(r.shards))]
}

// At returns the time of a call's first arrival, or the zero time if the call has not arrived.
func (r *Receiver) At(id [12]byte) time.Time {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[id]
}

// Distinct returns the number of calls that have arrived, without duplicates.
func (r *Receiver) Distinct() int64 {
	n := int64(0)
	for i := range r.shards {
		r.shards[i].mu.Lock()
		n += int64(len(r.shards[i].seen))
		r.shards[i].mu.Unlock()
	}
	return n
}

// Missing returns the number of calls that l has sent with response 200, but that have not arrived.
func (r *Receiver) Missing(l *Load) (missing int64) {
	for c := range l.All {
		if !c.Answered.IsZero() && r.At(c.ID).IsZero() {
			missing++
		}
	}
	return missing
}

// ClosedPort returns an address that refuses connections until closeIt is called. The port
// is the local port of an open connection, so no other program can listen on it.
func ClosedPort() (address string, closeIt func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	return conn.LocalAddr().String(), func() error { return errors.Join(conn.Close(), l.Close()) }, nil
}

// DeadPort returns an address that accepts connections but never responds, like a server that hangs.
func DeadPort() (address string, closeIt func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	return l.Addr().String(), l.Close, nil // the kernel accepts connections without a call of Accept
}
