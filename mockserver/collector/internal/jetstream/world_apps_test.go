package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An app sends the calls of a source. The app of the source web sends batches one after another, and
// repeats each batch until the response is 200. The app of the source ios uses the client.
type app struct {
	*world
	source  tracking.Source
	batches chan []string  // message IDs
	counts  map[string]int // number of calls of each user
	sent    []string       // message IDs
	unsure  int            // number of copies of calls that may be stored, because they were sent to several processes
	client  *analytics.Client
	spool   string          // directory of the client's spool, or empty
	results map[string]bool // whether the client delivered the call, by message ID; guarded by world.mu
}

// send sends n calls. Their IDs consist of the source, the user and a number.
func (a *app) send(n int) {
	var batch []string
	for range n {
		user := fmt.Sprint("u", a.random.IntN(4))
		a.counts[user]++
		batch = append(batch, fmt.Sprintf("%s-%s-%d", a.source.Name, user, a.counts[user]))
	}
	a.note("%s sends %v", a.source.Name, batch)
	a.sent = append(a.sent, batch...)
	if a.client == nil {
		a.batches <- batch
		return
	}
	for _, id := range batch {
		user, _ := userOf(id)
		if err := a.client.Track(&analytics.Track{Event: "E", UserId: user, Message: analytics.Message{MessageId: id}}); err != nil {
			a.t.Errorf("seed %d: the client does not accept a call: %v", a.seed, err)
		}
	}
}

// open starts the client.
func (a *app) open() {
	var err error
	a.client, err = analytics.NewWithConfig(a.source.WriteKey, analytics.Config{
		Endpoint: "http://collector", FlushAt: 10, FlushAfter: time.Second, Spool: a.spool, MaxAttempts: 1000, HTTPClient: &http.Client{Transport: a}, Logger: log.New(io.Discard, "", 0),
		Backoff: func(int) time.Duration { return time.Second },
		Callback: func(r analytics.Result) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.noteLocked("the client reports %s: %v", r.MessageId, r.Err); a.results[r.MessageId] && r.Err != nil {
				a.problem("the client reports the delivered call %s again: %v", r.MessageId, r.Err)
			}
			a.results[r.MessageId] = r.Err == nil
		},
	})
	if err != nil {
		a.t.Errorf("seed %d: the client does not start: %v", a.seed, err)
	}
}

// restart closes the client and starts it again.
func (a *app) restart() {
	if a.client != nil {
		a.note("the client restarts")
		a.close(time.Second)
		a.open()
	}
}

// close closes the client, and checks its account.
func (a *app) close(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(a.t.Context(), timeout)
	defer cancel()
	err := a.client.Shutdown(ctx)
	s := a.client.Stats()
	a.note("the client is closed: %v, %+v", err, s)
	if left := s.Accepted - s.Delivered - s.Dropped.Total() - s.Pending; left != 0 || s.Pending > 0 && a.spool == "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.problem("the account of the client does not hold: %+v", s)
	}
}

// RoundTrip implements http.RoundTripper: it sends a request of the client to one of the collectors.
func (a *app) RoundTrip(r *http.Request) (*http.Response, error) {
	p := a.process()
	if p == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	request := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.Path, bytes.NewReader(body))
	request.Header = r.Header
	response := httptest.NewRecorder()
	p.engine.ServeHTTP(response, request)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noteLocked("%s responds to the client with %d", p.name, response.Code)
	if p.dead || response.Code != http.StatusOK || r.Context().Err() != nil {
		a.unsure += bytes.Count(body, []byte(`"messageId"`))
	}
	if p.dead {
		return nil, io.ErrUnexpectedEOF
	}
	return response.Result(), nil
}

// process returns a random process, or nil if it does not run.
func (a *app) process() *instance {
	return a.collectors[a.chance("balance of "+a.source.Name, uint64(len(a.collectors)))].process
}

var types = []string{"track", "identify", "page", "screen", "group", "alias"}

// encode returns the call with a message ID.
func encode(id string) string {
	user, _ := userOf(id)
	return fmt.Sprintf(`{"type":%q,"event":"E","name":"N","groupId":"g","previousId":"old-%s","userId":%q,"messageId":%q}`, types[len(id)%len(types)], user, user, id)
}

// run sends the batches of an app without a client.
func (a *app) run() {
	for batch := range a.batches {
		var tried []*instance
		for !a.try(batch, &tried) {
			a.sleep(500 * time.Millisecond)
		}
		a.unsure += (len(tried) - 1) * len(batch)
	}
}

// try sends a batch to one of the collectors, and reports whether it was accepted.
func (a *app) try(batch []string, tried *[]*instance) bool {
	p := a.process()
	if p == nil {
		return false
	}
	if !slices.Contains(*tried, p) {
		*tried = append(*tried, p)
	}
	calls := make([]string, len(batch))
	for i, id := range batch {
		calls[i] = encode(id)
	}
	r := httptest.NewRequestWithContext(a.t.Context(), http.MethodPost, "/v1/batch", strings.NewReader(`{"batch":[`+strings.Join(calls, ",")+`]}`))
	r.SetBasicAuth(a.source.WriteKey, "")
	response := httptest.NewRecorder()
	p.engine.ServeHTTP(response, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noteLocked("%s responds to %v with %d", p.name, batch[0], response.Code)
	return !p.dead && response.Code == http.StatusOK
}

// finish waits until the app has sent its calls.
func (a *app) finish() {
	if a.client == nil {
		return
	}
	a.await("the client has sent its calls", func() error {
		if n := a.client.Stats().Pending; n > 0 {
			return fmt.Errorf("%d calls are pending in the client", n)
		}
		return nil
	})
	a.close(time.Minute)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = slices.DeleteFunc(a.sent, func(id string) bool {
		delivered, known := a.results[id]
		switch {
		case !known:
			a.problem("the client reported no result of %s", id)
		case !delivered && a.spool != "":
			a.problem("the client dropped %s, although it has a spool", id)
		case !delivered:
			a.unsure++ // the request may have succeeded
		}
		return !delivered
	})
}
