package harness

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Load sends batches of calls. Like a client, it retries each request until the
// response is 200.
type Load struct {
	URLs     []string // one or more collectors; after an error, a sender uses the next URL
	WriteKey string
	Run      byte // part of each messageId, so that loads have different messageIds
	Senders  int
	Batch    int  // calls per batch
	Singly   bool // every fifth request contains a single call
	CallSize int  // approximate size of a call in bytes; 800 by default
	Noise    bool // generate calls that do not compress
	// ManyUsers makes a sender use a different user for each call of a batch. Request n of the
	// sender contains the n-th call of each of these users. Otherwise all calls belong to
	// one user.
	ManyUsers bool
	// Rate limits the calls per second of all senders together; 0 means no limit.
	Rate int
	// Timeout limits the duration of a request. The default is 15 s.
	Timeout time.Duration
	// Calls is the approximate number of calls to send; 0 means no limit.
	Calls int64

	Sent    atomic.Int64 // number of calls in requests with response 200
	Errors  atomic.Int64 // number of failed attempts
	Refused atomic.Int64 // number of failed attempts that received a response

	requests [][]request // indexed by sender; each sender writes only its own element
}

type request struct{ begun, answered time.Time } // answered is the time of response 200, or zero

// Start starts to send calls and returns a function that stops the load. stop returns when all
// requests in progress have received response 200, or when grace has passed. stop can be
// called more than once.
func (l *Load) Start() (stop func(grace time.Duration)) {
	ctx, cancel := context.WithCancel(context.Background())
	hard, abort := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.send(ctx, hard)
	}()
	return func(grace time.Duration) {
		cancel()
		timer := time.AfterFunc(grace, abort)
		<-done
		timer.Stop()
		abort()
	}
}

// Do sends calls until ctx is done or the number Calls is reached. When ctx is done, it retries
// requests in progress for at most the duration grace.
func (l *Load) Do(ctx context.Context, grace time.Duration) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	l.send(ctx, hard)
}

// send starts requests until ctx is done, and retries them until hard is done.
func (l *Load) send(ctx, hard context.Context) {
	l.requests = make([][]request, l.Senders)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.Senders, MaxIdleConns: 4 * l.Senders}, Timeout: cmp.Or(l.Timeout, 15*time.Second)}
	defer client.CloseIdleConnections()
	var senders sync.WaitGroup
	for s := range l.Senders {
		senders.Go(func() {
			batch, single := l.body(s, l.Batch), l.body(s, 1)
			next := l.await(ctx, time.Now().Add(l.interval()*time.Duration(s)/time.Duration(l.Senders))) // the senders start at different times
			for n := 0; ctx.Err() == nil && (l.Calls == 0 || l.Sent.Load() < l.Calls); n++ {
				body := batch
				if l.size(n) == 1 {
					body = single
				}
				l.requests[s] = append(l.requests[s], request{begun: time.Now()})
				if !l.deliver(hard, client, s, body.path, body.with(l.Run, s, n)) {
					return
				}
				l.requests[s][n].answered = time.Now()
				l.Sent.Add(int64(l.size(n)))
				next = l.pace(ctx, next)
			}
		})
	}
	senders.Wait()
}

// size returns the number of calls in request n of a sender.
func (l *Load) size(n int) int {
	if l.Singly && n%5 == 4 {
		return 1
	}
	return l.Batch
}

// interval returns the time between the starts of two requests of a sender.
func (l *Load) interval() time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(l.Senders*l.Batch) * time.Second / time.Duration(l.Rate)
}

// pace waits until Rate allows the sender's next request. It does not send faster to make up for
// a delay.
func (l *Load) pace(ctx context.Context, last time.Time) (next time.Time) {
	if l.Rate == 0 {
		return last
	}
	next = last.Add(l.interval())
	if earliest := time.Now().Add(-l.interval()); next.Before(earliest) {
		next = earliest
	}
	return l.await(ctx, next)
}

// await waits until the time at, or until ctx is done. It returns at.
func (l *Load) await(ctx context.Context, at time.Time) time.Time {
	if left := time.Until(at); left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	return at
}

// deliver sends a request until the response is 200. It returns false if ctx is done first.
func (l *Load) deliver(ctx context.Context, client *http.Client, sender int, path string, body []byte) bool {
	for try := sender; ; try++ {
		status := Post(ctx, client, l.URLs[try%len(l.URLs)]+path, l.WriteKey, body)
		if status == http.StatusOK {
			return true
		}
		l.Errors.Add(1)
		if status != 0 {
			l.Refused.Add(1)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Duration(20+mathrand.IntN(30)) * time.Millisecond):
		}
	}
}

// Post sends calls once and returns the status of the response, or 0 without a response.
func Post(ctx context.Context, client *http.Client, url, writeKey string, body []byte) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.SetBasicAuth(writeKey, "")
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if err != nil {
		return 0
	}
	return res.StatusCode
}

// A Call is a call that a Load has sent at least once.
type Call struct {
	ID       [12]byte
	Begun    time.Time
	Answered time.Time // time of response 200; zero without it
}

// All iterates over the calls that were sent. Call it only when the load has stopped.
func (l *Load) All(yield func(Call) bool) {
	for s, requests := range l.requests {
		for n, r := range requests {
			for i := range l.size(n) {
				if !yield(Call{callID(l.Run, s, n, i), r.begun, r.answered}) {
					return
				}
			}
		}
	}
}

// callID returns the messageId of the call at a position in a sender's request.
func callID(run byte, sender, request, place int) [12]byte {
	var id [12]byte
	id[0], id[1] = run, byte(sender)
	binary.BigEndian.PutUint64(id[2:], uint64(request))
	binary.BigEndian.PutUint16(id[10:], uint16(place))
	return id
}

// idDigits is the length of a messageId.
const idDigits = 24

// A body is a template of a request body. Each request gets its own messageIds.
type body struct {
	path   string
	text   []byte
	places []int // positions of the messageIds in text
}

// body returns the template for a sender's requests with the given number of calls.
func (l *Load) body(sender, calls int) *body {
	b := &body{path: "/v1/batch", text: []byte(`{"batch":[`)}
	end := `],"sentAt":"2026-01-02T03:04:06.000Z"}`
	if calls == 1 && l.Singly {
		*b, end = body{path: "/v1/track"}, ""
	}
	size := cmp.Or(l.CallSize, 800)
	for i := range calls {
		if i > 0 {
			b.text = append(b.text, ',')
		}
		start := len(b.text)
		user := 12345
		if l.ManyUsers {
			user = sender*l.Batch + i
		}
		b.text = fmt.Appendf(b.text, `{"type":"track","userId":"user-%05d"`, user)
		b.text = append(b.text, `,"event":"Order Completed","messageId":"`...)
		b.places = append(b.places, len(b.text))
		b.text = append(b.text, bytes.Repeat([]byte{'0'}, idDigits)...)
		b.text = append(b.text, `","timestamp":"2026-01-02T03:04:05.678Z","context":{"ip":"203.0.113.7","library":{"name":"load","version":"1.0"},"page":{"path":"/checkout","url":"https://shop.example.com/checkout"}},"properties":{"revenue":129.9,"currency":"EUR","coupon":null,"express":true`...)
		for n := 0; len(b.text)-start < size-60; n++ {
			if l.Noise {
				b.text = fmt.Appendf(b.text, `,"property_%d":"%s"`, n, rand.Text())
			} else {
				b.text = fmt.Appendf(b.text, `,"property_%d":"value %d of %d"`, n, n*7919%1000, i)
			}
		}
		b.text = append(b.text, `}}`...)
	}
	b.text = append(b.text, end...)
	return b
}

func (b *body) with(run byte, sender, request int) []byte {
	for i, at := range b.places {
		id := callID(run, sender, request, i)
		hex.Encode(b.text[at:at+idDigits], id[:])
	}
	return bytes.Clone(b.text) // a copy, because an aborted request may still be reading the previous body
}
