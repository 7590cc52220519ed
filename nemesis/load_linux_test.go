package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A load sends calls as clients do: batches, and every fifth request a single call.
// Each request is made again until it is answered 200.
type load struct {
	url     string
	others  []string // further collectors; a sender changes to the next on an error
	prefix  string   // of the messageIds
	senders int
	batch   int
	size    int // bytes of a call, about, which do not compress
	rate    int // calls a second

	mu      sync.Mutex           // guards all below
	begun   map[string]bool      // calls that were sent at least once
	acked   map[string]time.Time // when they were answered 200
	refused int                  // answers 503, or 429
	number  int

	cancel, abort context.CancelFunc
	running       sync.WaitGroup
}

// start begins to send.
func (l *load) start() {
	if l.begun == nil {
		l.begun, l.acked = map[string]bool{}, map[string]time.Time{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	hard, abort := context.WithCancel(context.Background())
	l.cancel, l.abort = cancel, abort
	for s := range l.senders {
		l.running.Go(func() { l.send(ctx, hard, s) })
	}
}

// stop ends the load. Requests that were begun are made until they are answered
// 200, but no longer than grace.
func (l *load) stop(grace time.Duration) {
	if l.cancel == nil {
		return
	}
	l.cancel()
	timer := time.AfterFunc(grace, l.abort)
	l.running.Wait()
	timer.Stop()
	l.abort()
	l.cancel = nil
}

// abandon ends the load at once.
func (l *load) abandon() { l.stop(0) }

func (l *load) send(ctx, hard context.Context, sender int) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 15 * time.Second}
	defer client.CloseIdleConnections()
	pause := time.Duration(l.senders*l.batch) * time.Second / time.Duration(l.rate)
	next := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		size := l.batch
		if n%5 == 4 {
			size = 1
		}
		ids, body := l.request(size)
		if !l.deliver(hard, client, sender, ids, body) {
			return
		}
		next = later(next.Add(pause), time.Now().Add(-pause))
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// request makes calls and the body that sends them.
func (l *load) request(size int) (ids []string, body []byte) {
	l.mu.Lock()
	for range size {
		id := fmt.Sprintf("%s%08d", l.prefix, l.number)
		l.number++
		l.begun[id] = true
		ids = append(ids, id)
	}
	l.mu.Unlock()
	var calls []string
	for _, id := range ids {
		calls = append(calls, fmt.Sprintf(`{"type":"track","userId":"u","event":"Order Completed","messageId":%q,"properties":{"text":%q}}`, id, noise(l.size-120)))
	}
	if size == 1 {
		return ids, []byte(calls[0])
	}
	return ids, []byte(`{"batch":[` + strings.Join(calls, ",") + `]}`)
}

func noise(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	b := make([]byte, max(n, 1))
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

// deliver makes a request until it is answered 200.
func (l *load) deliver(ctx context.Context, client *http.Client, sender int, ids []string, body []byte) bool {
	path := "/v1/batch"
	if len(ids) == 1 {
		path = "/v1/track"
	}
	urls := append([]string{l.url}, l.others...)
	for try := sender; ; try++ {
		status := post(ctx, client, urls[try%len(urls)]+path, body)
		l.mu.Lock()
		switch status {
		case http.StatusOK:
			now := time.Now()
			for _, id := range ids {
				l.acked[id] = now
			}
			l.mu.Unlock()
			return true
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			l.refused++
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Duration(20+rand.IntN(30)) * time.Millisecond):
		}
	}
}

// post returns the status, or 0 where none came.
func post(ctx context.Context, client *http.Client, url string, body []byte) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.SetBasicAuth("load", "")
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// taken counts the calls that were answered 200.
func (l *load) taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// known returns the calls that were answered 200, with the time, and how many were
// sent.
func (l *load) known() (acked map[string]time.Time, begun int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked), len(l.begun)
}

func (l *load) sent(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun[id]
}

// refusals counts the requests that were answered 503, or 429.
func (l *load) refusals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}
