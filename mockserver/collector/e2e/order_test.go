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
	"github.com/stretchr/testify/require"
)

// An orderedReceiver checks that the calls of each user come in their order: after call n
// comes n+1, or one up to n, from which on all come again.
type orderedReceiver struct {
	*httptest.Server

	mu       sync.Mutex // guards what follows
	random   *rand.Rand
	healthy  bool
	last     map[string]int // call of each user that was taken last; 0 before the first
	repeats  int
	problems []string
}

func newOrderedReceiver(t *testing.T) *orderedReceiver {
	r := &orderedReceiver{random: rand.New(rand.NewPCG(1, 2)), last: map[string]int{}}
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

// TestKillsKeepTheOrder kills a collector with a destination that has an order again and
// again, while calls of a few users come in and some deliveries fail.
func TestKillsKeepTheOrder(t *testing.T) {
	t.Parallel()
	const users, batch = 20, 20
	kills := full(t, "COLLECTOR_KILLS", 3)
	random := rand.New(rand.NewPCG(2, uint64(kills)))
	receiver := newOrderedReceiver(t)
	path, address := configure(t, t.TempDir(), "data: data", fmt.Sprintf("- {name: crm, order: user, webhooks: [{url: '%s'}]}\n", receiver.URL))
	c := serve(t, path, address, nil)

	// Each user's calls come from one sender, which repeats a batch until it is taken.
	sent := make([]int, users)
	stop := make(chan struct{})
	var senders sync.WaitGroup
	var mu sync.Mutex // guards url
	url := c.URL
	for s := range 4 {
		senders.Go(func() {
			for turn := 0; ; turn++ {
				var body bytes.Buffer
				for i := range batch {
					user := s*users/4 + (turn+i)%(users/4)
					sent[user]++
					separator := ","
					if i == 0 {
						separator = `{"batch":[`
					}
					fmt.Fprintf(&body, `%s{"type":"track","event":"E","userId":"u%d","messageId":"u%d-%d","properties":{"n":%d}}`, separator, user, user, sent[user], sent[user])
				}
				body.WriteString("]}")
				for taken := false; !taken; {
					mu.Lock()
					to := url
					mu.Unlock()
					taken = postBatch(t, to, body.Bytes())
					select {
					case <-stop:
						if taken {
							return
						}
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
		})
	}
	for kill := range kills {
		time.Sleep(time.Duration(500+random.IntN(1000)) * time.Millisecond) // a moment nobody chose
		c.Kill()
		c = serve(t, path, address, nil)
		mu.Lock()
		url = c.URL
		mu.Unlock()
		receiver.mu.Lock()
		t.Logf("kill %d: %d repeats", kill+1, receiver.repeats)
		receiver.mu.Unlock()
	}
	close(stop)
	senders.Wait()
	receiver.mu.Lock()
	receiver.healthy = true
	receiver.mu.Unlock()
	ledger := settled(t, c, 3*time.Minute)["crm"]
	verify(t, c)
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	assert.Empty(t, receiver.problems)
	all := 0
	for user, n := range sent {
		all += n
		assert.Equal(t, n, receiver.last[fmt.Sprintf("u%d", user)], "the last call of user %d", user)
	}
	require.Equal(t, int64(all), ledger.Delivered, "%+v", ledger)
	assert.NoError(t, c.Stop(), "it ends gracefully")
}

// postBatch sends a batch, and reports whether it was taken.
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
