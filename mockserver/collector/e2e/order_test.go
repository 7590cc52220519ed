package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// An orderedReceiver checks the order of each user's calls. Call n must be followed by call n+1,
// or by an earlier call and then again by all calls after that one.
type orderedReceiver struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	random   *rand.Rand
	healthy  bool
	last     map[string]int // number of the last accepted call of each user; 0 before the first call
	repeats  int
	problems []string

	// A stopped collector may have started requests that arrive while another one delivers.

	clients map[string]bool // connections with requests
	stopped map[string]bool // connections of a stopped collector
	late    int             // number of rejected requests on the stopped connections
}

// stop marks all current connections as connections of a stopped collector. The receiver
// rejects requests on these connections until goOn is called.
func (r *orderedReceiver) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped, r.clients = r.clients, map[string]bool{}
}

// goOn accepts requests on all connections again. Call it when another collector delivers.
func (r *orderedReceiver) goOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = nil
}

func newOrderedReceiver(t *testing.T) *orderedReceiver {
	r := &orderedReceiver{random: rand.New(rand.NewPCG(1, 2)), last: map[string]int{}, clients: map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *orderedReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var call struct {
		UserID     string
		Properties struct{ N int }
	}
	if err := json.NewDecoder(req.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	user, n := call.UserID, call.Properties.N
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped[req.RemoteAddr] {
		r.late++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.clients[req.RemoteAddr] = true
	switch {
	case n > r.last[user]+1:
		r.problems = append(r.problems, fmt.Sprintf("call %d of %s came after call %d", n, user, r.last[user]))
	case n <= r.last[user]:
		r.repeats++
	}
	if !r.healthy && r.random.IntN(50) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.last[user] = n
}

// orderedSenders send the calls of several users. Each user has one sender, which repeats a
// batch until it is accepted.
type orderedSenders struct {
	t    *testing.T
	sent []int // number of calls sent for each user
	stop chan struct{}
	wait sync.WaitGroup

	mu   sync.Mutex // guards urls
	urls []string   // URLs of the collectors; a sender tries the next one if a batch fails
}

// sendInOrder starts the senders. Each sender sends batches at the given interval.
func sendInOrder(t *testing.T, every time.Duration, urls ...string) *orderedSenders {
	const users, batch, senders = 20, 20, 4
	s := &orderedSenders{t: t, sent: make([]int, users), stop: make(chan struct{}), urls: urls}
	for sender := range senders {
		s.wait.Go(func() {
			for turn, to := 0, sender; ; turn++ {
				var body bytes.Buffer
				for i := range batch {
					user := sender*users/senders + (turn+i)%(users/senders)
					s.sent[user]++
					separator := ","
					if i == 0 {
						separator = `{"batch":[`
					}
					fmt.Fprintf(&body, `%s{"type":"track","event":"E","userId":"u%d","messageId":"u%d-%d","properties":{"n":%d}}`, separator, user, user, s.sent[user], s.sent[user])
				}
				body.WriteString("]}")
				for taken := false; !taken; {
					if taken = postBatch(t, s.url(to), body.Bytes()); !taken {
						to++
					}
					select {
					case <-s.stop:
						if taken {
							return
						}
					case <-time.After(every):
					}
				}
			}
		})
	}
	return s
}

func (s *orderedSenders) url(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urls[i%len(s.urls)]
}

// moved changes the URL of a collector.
func (s *orderedSenders) moved(collector int, url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls[collector] = url
}

// end stops the senders and checks that hook received all calls that were sent.
func (s *orderedSenders) end(c *harness.Collector, r *orderedReceiver) {
	s.t.Helper()
	close(s.stop)
	s.wait.Wait()
	r.mu.Lock()
	r.healthy = true
	r.mu.Unlock()
	ledger := settled(s.t, c)["hook"]
	verify(s.t, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(s.t, r.problems)
	all := 0
	for user, n := range s.sent {
		all += n
		assert.Equal(s.t, n, r.last[fmt.Sprintf("u%d", user)], "the last call of user %d", user)
	}
	assert.GreaterOrEqual(s.t, ledger.Delivered, int64(all), "%+v", ledger)
	assert.Equal(s.t, ledger.Accepted, ledger.Delivered, "%+v", ledger)
	s.t.Logf("%d calls, %d deliveries were repeated, %d came late from a collector that had been stopped", all, r.repeats, r.late)
}

// TestKillsKeepTheOrder repeatedly kills a collector with an ordered destination, while calls
// of several users arrive and some deliveries fail.
func TestKillsKeepTheOrder(t *testing.T) {
	t.Parallel()
	kills := full(t, "COLLECTOR_KILLS", 3)
	random := rand.New(rand.NewPCG(2, uint64(kills)))
	receiver := newOrderedReceiver(t)
	path, address := configure(t, t.TempDir(), "data: data", inOrder(receiver))
	c := serve(t, path, address, nil)
	senders := sendInOrder(t, 20*time.Millisecond, c.URL)
	for range kills {
		time.Sleep(time.Duration(500+random.IntN(1000)) * time.Millisecond) // until a random moment
		c.Kill()
		c = serve(t, path, address, nil)
		senders.moved(0, c.URL)
	}
	senders.end(c, receiver)
	assert.NoError(t, c.Stop(), "it ends gracefully")
}

// inOrder returns the destination hook with order: user.
func inOrder(r *orderedReceiver) string {
	return fmt.Sprintf("- {name: hook, order: user, webhooks: [{url: '%s'}]}\n", r.URL)
}

// postBatch sends a batch and reports whether it was accepted.
func postBatch(t *testing.T, url string, body []byte) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/batch", bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.SetBasicAuth(writeKey, "")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}
