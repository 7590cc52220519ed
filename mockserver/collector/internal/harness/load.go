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

// A Load sends batches of calls, each again until it is answered 200, as clients
// do.
type Load struct {
	URLs     []string // one or more collectors; a sender changes to the next on an error
	WriteKey string
	Run      byte // tells the calls of one load from those of another
	Senders  int
	Batch    int  // calls in a batch
	CallSize int  // bytes of a call, about. Defaults to 800
	Noise    bool // calls that do not compress
	// Rate bounds the calls a second of all senders; 0 is no bound.
	Rate int
	// Timeout is how long a sender waits for an answer. Defaults to 15 s.
	Timeout time.Duration
	// Calls ends the load after about so many; 0 is no bound.
	Calls int64

	Sent    atomic.Int64 // calls that were answered 200
	Errors  atomic.Int64 // attempts that were not
	Refused atomic.Int64 // of these, answers other than 200

	acked []atomic.Int64 // batches of each sender that were answered 200
	begun [][]time.Time  // when each batch was begun, by sender; each sender writes its own
}

// idDigits is how long a messageId is.
const idDigits = 24

// CallID is the messageId of a call: of one run, sender, batch and place.
func CallID(run byte, sender, batch, place int) [12]byte {
	var id [12]byte
	id[0], id[1] = run, byte(sender)
	binary.BigEndian.PutUint64(id[2:], uint64(batch))
	binary.BigEndian.PutUint16(id[10:], uint16(place))
	return id
}

// Do sends until ctx ends or enough were sent. Every batch that was begun is
// sent to its end, but for those that no collector takes within grace after ctx
// has ended.
func (l *Load) Do(ctx context.Context, grace time.Duration) {
	l.acked = make([]atomic.Int64, l.Senders)
	l.begun = make([][]time.Time, l.Senders)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.Senders, MaxIdleConns: 4 * l.Senders}, Timeout: cmp.Or(l.Timeout, 15*time.Second)}
	defer client.CloseIdleConnections()
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	start := time.Now()
	var senders sync.WaitGroup
	for s := range l.Senders {
		senders.Go(func() {
			body := newBody(l.Batch, cmp.Or(l.CallSize, 800), l.Noise)
			for n := 0; ctx.Err() == nil && (l.Calls == 0 || l.Sent.Load() < l.Calls); n++ {
				l.pace(ctx, start)
				l.begun[s] = append(l.begun[s], time.Now())
				if !l.send(hard, client, s, body.with(l.Run, s, n)) {
					return
				}
				l.acked[s].Add(1)
				l.Sent.Add(int64(l.Batch))
			}
		})
	}
	senders.Wait()
}

// pace waits until the rate allows another batch.
func (l *Load) pace(ctx context.Context, start time.Time) {
	if l.Rate == 0 {
		return
	}
	due := start.Add(time.Duration(l.Sent.Load()) * time.Second / time.Duration(l.Rate))
	select {
	case <-time.After(time.Until(due)):
	case <-ctx.Done():
	}
}

// send sends a batch until it is answered 200.
func (l *Load) send(ctx context.Context, client *http.Client, sender int, body []byte) bool {
	for try := sender; ; try++ {
		status := post(ctx, client, l.URLs[try%len(l.URLs)], l.WriteKey, body)
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

func post(ctx context.Context, client *http.Client, url, key string, body []byte) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/batch", bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.SetBasicAuth(key, "")
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

// Each calls see with the messageId of each call that was answered 200.
func (l *Load) Each(see func(id [12]byte)) {
	for s := range l.acked {
		for n := range int(l.acked[s].Load()) {
			for i := range l.Batch {
				see(CallID(l.Run, s, n, i))
			}
		}
	}
}

// Latencies returns how long after its batch was begun each call that was answered
// 200 came first to a receiver. It is to be called once Do has returned.
func (l *Load) Latencies(r *Receiver) (all []time.Duration) {
	for s := range l.acked {
		for n := range int(l.acked[s].Load()) {
			for i := range l.Batch {
				if at := r.At(CallID(l.Run, s, n, i)); !at.IsZero() {
					all = append(all, at.Sub(l.begun[s][n]))
				}
			}
		}
	}
	return all
}

// A body is a batch whose messageIds are written into it.
type body struct {
	text   []byte
	places []int // of the messageIds
}

func newBody(calls, size int, noise bool) *body {
	b := &body{text: []byte(`{"batch":[`)}
	for i := range calls {
		if i > 0 {
			b.text = append(b.text, ',')
		}
		start := len(b.text)
		b.text = append(b.text, `{"type":"track","userId":"user-12345","event":"Order Completed","messageId":"`...)
		b.places = append(b.places, len(b.text))
		b.text = append(b.text, bytes.Repeat([]byte{'0'}, idDigits)...)
		b.text = append(b.text, `","timestamp":"2026-01-02T03:04:05.678Z","context":{"ip":"203.0.113.7","library":{"name":"load","version":"1.0"},"page":{"path":"/checkout","url":"https://shop.example.com/checkout"}},"properties":{"revenue":129.9,"currency":"EUR","coupon":null,"express":true`...)
		for n := 0; len(b.text)-start < size-60; n++ {
			if noise {
				b.text = fmt.Appendf(b.text, `,"property_%d":"%s"`, n, rand.Text())
			} else {
				b.text = fmt.Appendf(b.text, `,"property_%d":"value %d of %d"`, n, n*7919%1000, i)
			}
		}
		b.text = append(b.text, `}}`...)
	}
	b.text = append(b.text, `],"sentAt":"2026-01-02T03:04:06.000Z"}`...)
	return b
}

func (b *body) with(run byte, sender, batch int) []byte {
	for i, at := range b.places {
		id := CallID(run, sender, batch, i)
		hex.Encode(b.text[at:at+idDigits], id[:])
	}
	return bytes.Clone(b.text) // a request that was given up may still read the one before
}
