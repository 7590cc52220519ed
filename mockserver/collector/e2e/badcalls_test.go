package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// goodCalls is a webhook that rejects calls with a messageId that starts with bad. It records
// when other calls arrive.
type goodCalls struct {
	mu sync.Mutex // guards came
	// came contains the time when each call first arrived, keyed by source and messageId.
	came map[string]map[string]time.Time
}

func (g *goodCalls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Message-Id")
	if strings.HasPrefix(id, "bad") {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	source, _, _ := strings.Cut(id, "-")
	if g.came[source] == nil {
		g.came[source] = map[string]time.Time{}
	}
	if _, again := g.came[source][id]; !again {
		g.came[source][id] = time.Now()
	}
}

// await waits for n calls of a source and returns the time of the last arrival.
func (g *goodCalls) await(t *testing.T, source string, n int, deadline time.Time) (last time.Time) {
	t.Helper()
	for ; ; time.Sleep(50 * time.Millisecond) {
		g.mu.Lock()
		have := len(g.came[source])
		for _, at := range g.came[source] {
			if at.After(last) {
				last = at
			}
		}
		g.mu.Unlock()
		if have >= n {
			return last
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d good calls of source %s came in time", have, n, source)
		}
	}
}

// tracks returns a batch of n calls.
func tracks(prefix string, n int) string {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"E","userId":"u","messageId":"%s-%d"}`, prefix, i))
	}
	return `{"batch":[` + strings.Join(calls, ",") + `]}`
}

// postAll posts bodies to a collector with limited concurrency.
func postAll(t *testing.T, url, key string, bodies []string) {
	t.Helper()
	var senders sync.WaitGroup
	next := make(chan string)
	for range 8 {
		senders.Go(func() {
			for body := range next {
				req, _ := http.NewRequest(http.MethodPost, url+"/v1/batch", strings.NewReader(body))
				req.SetBasicAuth(key, "")
				res, err := http.DefaultClient.Do(req)
				if !assert.NoError(t, err) {
					continue
				}
				_ = res.Body.Close()
				assert.Equal(t, http.StatusOK, res.StatusCode)
			}
		})
	}
	for _, body := range bodies {
		next <- body
	}
	close(next)
	senders.Wait()
}

// TestBadCallsDoNotDelayOthers checks that calls that the webhook rejects permanently do not
// delay other calls. Tests in internal/delivery measure the delay with a fake clock.
func TestBadCallsDoNotDelayOthers(t *testing.T) {
	const good = 45
	many := full(t, "COLLECTOR_BAD_CALLS", 1_000)
	batches := max(1, many/1_250)
	each := func(n, size int) (bodies []string) {
		for i := range n {
			bodies = append(bodies, tracks(fmt.Sprintf("bad%d", i), size))
		}
		return bodies
	}
	var control []string
	for i := range 40 {
		control = append(control, strings.ReplaceAll(tracks(fmt.Sprintf("bad@%d", i), 1), "@", fmt.Sprintf(`\u%04x`, i%32)))
	}
	for name, bad := range map[string][]string{
		"40 messageIds with control characters":     control,
		"40 one by one":                             each(40, 1),
		fmt.Sprintf("%d one by one", many):          each(many, 1),
		fmt.Sprintf("%d batches of 2,500", batches): each(batches, 2_500),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhook := &goodCalls{came: map[string]map[string]time.Time{}}
			receiver := httptest.NewServer(webhook)
			defer receiver.Close()
			path, address := configure(t, t.TempDir(), "data: data", destination("hook", receiver.URL))
			c := serve(t, path, address, nil)

			postAll(t, c.URL, writeKey, bad)
			start := time.Now()
			for i := range good {
				postAll(t, c.URL, writeKey, []string{tracks(fmt.Sprintf("same-%d", i), 1)})
				postAll(t, c.URL, otherKey, []string{tracks(fmt.Sprintf("other-%d", i), 1)})
			}
			soon := time.Now().Add(2 * time.Minute) // much less than the four hours for which bad calls are retried
			other := webhook.await(t, "other", good, soon)
			same := webhook.await(t, "same", good, soon)
			t.Logf("the last good calls came %v after the first was posted, and %v those of the same source", other.Sub(start), same.Sub(start))
			verify(t, c)
		})
	}
}
