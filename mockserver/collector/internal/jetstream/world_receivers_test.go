package jetstream_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A mode is the behavior of a receiver.
type mode struct {
	name       string
	slowest    time.Duration // of the responses
	failures   uint64        // of 100 requests, the number with another status than 200
	status     int           // 0 means that it refuses connections
	retryAfter int           // in seconds
}

var (
	healthy = mode{name: "is healthy", slowest: 30 * time.Millisecond}
	modes   = []mode{
		healthy, healthy,
		{name: "is slow", slowest: 7 * time.Second},
		{"fails", 100 * time.Millisecond, 70, http.StatusInternalServerError, 0},
		{"refuses calls", 100 * time.Millisecond, 40, http.StatusBadRequest, 0},
		{"limits the rate", 100 * time.Millisecond, 30, http.StatusTooManyRequests, 300},
		{"is gone", 100 * time.Millisecond, 100, http.StatusGone, 0},
		{name: "vanishes", failures: 100},
	}
)

// propagation is the longest time until all collectors know a change, without partitions.
const propagation = 20 * time.Second

// A receiver is the webhook of one destination. It checks requests. Its fields are guarded by
// world.mu.
type receiver struct {
	*world
	host      string
	mode      mode
	isOrdered bool
	visits    map[string]*visits // by message ID
	active    map[string]int     // number of requests in flight, by user
	begun     map[string]int     // number of the last call with a request, by user
	ended     map[string]end     // last response, by user
	held      held
	pausedAt  time.Time // zero if the destination is possibly not paused
	resuming  int       // number of requests to resume it that are in progress
	resumes   int       // number of calls of mayRun
	rules     rules
	changes   int // number of calls of changeRules
	changing  int // number of changes that have not ended
}

// visits are the requests with one call.
type visits struct {
	accepted int  // number of requests with the status 200
	final    bool // whether the receiver accepted or refused the call
	exempt   bool // whether the call was replayed
}

// An end is the end of a request to a receiver.
type end struct {
	at time.Time
	by *instance
}

// stalled is the longest time between two calls of a user without faults. The effects of a fault last
// for residue at most: a message whose delivery was lost is delivered again.
const stalled, residue = 2 * time.Second, 12 * time.Second

// A held is a pause that the receiver requested.
type held struct {
	from, until time.Time
	by          *instance // process that received the response
	isUnstored  bool      // whether the process could not store it
}

func newReceiver(w *world, host string) *receiver {
	return &receiver{world: w, host: host, mode: healthy, isOrdered: host == "crm", visits: map[string]*visits{}, active: map[string]int{}, begun: map[string]int{}, ended: map[string]end{}}
}

func (r *receiver) change(m mode) {
	r.note("%s %s", r.host, m.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = m
}

// mayRun records that the destination is possibly not paused. The returned function records a pause,
// unless mayRun was called in the meantime, or a request to resume the destination is in progress.
func (r *receiver) mayRun() (paused func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumes++
	resumes := r.resumes
	r.pausedAt = time.Time{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.resumes == resumes && r.resuming == 0 {
			r.pausedAt = time.Now()
		}
	}
}

// count changes a counter.
func (r *receiver) count(n *int, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n += by
}

// visit returns the requests with a call. The lock is held.
func (r *receiver) visit(id string) *visits {
	if r.visits[id] == nil {
		r.visits[id] = &visits{}
	}
	return r.visits[id]
}

// userOf returns the user and the number of a call. Each call of a collector counts as another user.
func userOf(id string) (user string, number int) {
	if !strings.HasPrefix(id, "web-") && !strings.HasPrefix(id, "ios-") {
		return id, 0
	}
	at := strings.LastIndexByte(id, '-')
	number, _ = strconv.Atoi(id[at+1:])
	return id[:at], number
}

// RoundTrip implements http.RoundTripper: it sends a request of a collector to a receiver.
func (p *instance) RoundTrip(req *http.Request) (*http.Response, error) {
	r := p.receivers[req.URL.Host]
	calls, err := sentCalls(req)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.problem("a request to %s without calls: %v", r.host, err)
		return nil, err
	}
	id := calls[0].id
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return nil, errors.New("the process is dead")
	}
	m := r.mode
	takes := time.Duration(r.chanceLocked(r.host+id, uint64(m.slowest)+1))
	fails := r.chanceLocked(r.host+id, 100) < m.failures
	if fails && m.status == 0 {
		r.work.attempts++
		p.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	for _, c := range calls {
		r.begin(p, c.id, c.body)
		r.audience.begin(r, c.id, c.body)
	}
	p.mu.Unlock()

	var canceled error
	select {
	case <-time.After(takes):
	case <-req.Context().Done():
		canceled = req.Context().Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	status, header := http.StatusOK, http.Header{}
	if fails {
		status = m.status
	}
	if p.dead || canceled != nil && errors.Is(context.Cause(req.Context()), context.Canceled) && r.chanceLocked(id, 2) == 0 {
		status = 0 // the receiver noticed that the request was canceled
	}
	response := r.finishAll(p, calls, status, isRelayed(req))
	switch {
	case canceled != nil:
		return nil, canceled
	case p.dead:
		return nil, errors.New("the process is dead")
	}
	if m.retryAfter > 0 && status == m.status {
		seconds := 1 + r.chanceLocked(r.host, uint64(m.retryAfter))
		header.Set("Retry-After", fmt.Sprint(seconds))
		r.noteLocked("%s requests a pause of %d s", r.host, seconds)
		if until := time.Now().Add(time.Duration(seconds) * time.Second); until.After(r.held.until) {
			r.held = held{from: time.Now(), until: until, by: p}
		}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(response))}, nil
}

// A sentCall is a call in a request.
type sentCall struct {
	id   string
	body []byte
}

// sentCalls returns the calls in a request.
func sentCalls(req *http.Request) (calls []sentCall, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if id := req.Header.Get("X-Message-Id"); id != "" {
		return []sentCall{{id, body}}, nil
	}
	var batch []json.RawMessage
	if isRelayed(req) {
		batch, err = relayedCalls(body)
	} else {
		err = json.Unmarshal(body, &batch)
	}
	if err == nil && len(batch) == 0 {
		err = errors.New("the batch is empty")
	}
	for _, body := range batch {
		var c struct{ MessageID string }
		err = errors.Join(err, json.Unmarshal(body, &c))
		calls = append(calls, sentCall{c.MessageID, body})
	}
	return calls, err
}

// isRelayed reports whether a relay sent a request.
func isRelayed(req *http.Request) bool { return req.Header.Get(webhook.RelayHeader) != "" }

// relayedCalls returns the calls in the body of a relay's request.
func relayedCalls(body []byte) ([]json.RawMessage, error) {
	plain, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	var request struct{ Batch []json.RawMessage }
	err = json.NewDecoder(plain).Decode(&request)
	return request.Batch, err
}

// finishAll records a response to a request, and returns its body. The receiver refuses some calls of a
// batch, unless the batch was relayed. The lock is held.
func (r *receiver) finishAll(p *instance, calls []sentCall, status int, relayed bool) []byte {
	var response webhook.BatchResponse
	for _, c := range calls {
		of := status
		switch {
		case len(calls) > 1 && status == http.StatusBadRequest:
			of = 0 // it does not concern all calls
		case len(calls) > 1 && !relayed && status == http.StatusOK && r.chanceLocked(r.host+c.id, 8) == 0:
			f := webhook.FailedCall{MessageID: c.id, Retry: r.chanceLocked(r.host+c.id, 2) == 0}
			response.Failed = append(response.Failed, f)
			if of = http.StatusBadRequest; f.Retry {
				of = http.StatusServiceUnavailable
			}
		}
		if r.finish(p, c.id, of); of == http.StatusOK {
			r.audience.accept(r, c.id, c.body)
		}
	}
	body, err := json.Marshal(response)
	if err != nil {
		r.problem("%v", err)
	}
	return body
}

// begin checks a request when it begins. The lock is held.
func (r *receiver) begin(p *instance, id string, body []byte) {
	user, n := userOf(id)
	r.work.attempts++
	r.noteLocked("%s sends %s to %s", p.name, id, r.host)
	if h := r.held; time.Now().Before(h.until) && h.applies(p) {
		r.problem("%s sends %s to %s, which has requested a pause until %v", p.name, id, r.host, h.until.Sub(start))
	}
	if !r.pausedAt.IsZero() && time.Since(r.pausedAt) > propagation && p.sees() {
		r.problem("%s sends %s to %s, which is paused since %v", p.name, id, r.host, r.pausedAt.Sub(start))
	}
	if strings.HasPrefix(id, "ios-") && r.host == "ads" {
		r.problem("%s sends %s to %s, which is not connected to its source", p.name, id, r.host)
	}
	r.checkRules(p, id, body)
	r.checkPlan(p, id, body)
	if (r.isOrdered || r.rules.ordered && r.rules.apply(p)) && r.active[user] > 0 {
		r.problem("%s sends %s to %s while another call of the user is in flight", p.name, id, r.host)
	}
	last := r.ended[user]
	if waited := time.Since(last.at); r.settling && r.isOrdered && !r.visit(id).exempt && last.by == p && n > r.begun[user] && waited > stalled && last.at.After(r.held.until) && last.at.Sub(r.calmAt) > residue {
		r.problem("%s sends %s to %s %v after the previous call of the user", p.name, id, r.host, waited)
	}
	r.active[user]++
	if !r.visit(id).exempt {
		r.begun[user] = max(r.begun[user], n)
	}
}

// applies reports whether a process must know the pause. The lock is held.
func (h held) applies(p *instance) bool {
	if p == h.by {
		return time.Since(h.from) > time.Millisecond
	}
	stored := h.from.Add(storeTimeout)
	switch {
	case h.isUnstored || h.by.dead && h.by.ended.Before(stored) || time.Now().Before(stored):
		return false
	case p.started.After(stored):
		return true
	}
	return time.Since(stored) > propagation && p.sees()
}

// storeTimeout is the longest time until a collector has stored a pause.
const storeTimeout = 11 * time.Second

// sees reports whether a process must know changes that other processes made before propagation. The
// lock is held.
func (p *instance) sees() bool { return time.Since(p.blind) > propagation }

// finish records a response. The lock is held.
func (r *receiver) finish(p *instance, id string, status int) {
	user, n := userOf(id)
	r.noteLocked("%s responds to %s of %s with %d", r.host, id, p.name, status)
	r.active[user]--
	if r.ended[user] = (end{}); status == http.StatusOK && r.settling {
		r.ended[user] = end{time.Now(), p}
	}
	v := r.visit(id)
	final := status == http.StatusOK || status == http.StatusBadRequest || status == http.StatusGone
	if status == http.StatusOK {
		v.accepted++
	}
	// The client may send the batches of a source in another order.
	if final && !v.final && !v.exempt && r.isOrdered && r.begun[user] > n && strings.HasPrefix(id, "web-") {
		r.problem("%s received call %d of %s before %s had ended", r.host, r.begun[user], user, id)
	}
	v.final = v.final || final
}
