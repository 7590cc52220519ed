package e2e

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestKillsKeepRetryAfter kills the collector while a destination is paused, because its
// receiver responded with 429 and Retry-After. The restarted collector makes no request before
// the pause ends. COLLECTOR_RETRY_AFTER_KILLS sets the number of kills.
func TestKillsKeepRetryAfter(t *testing.T) {
	t.Parallel()
	const retryAfter = 5 * time.Second
	kills := full(t, "COLLECTOR_RETRY_AFTER_KILLS", 2)
	random := rand.New(rand.NewPCG(2, uint64(kills)))
	var mu sync.Mutex // guards requests
	var requests []time.Time
	receiver := harness.NewReceiver()
	t.Cleanup(receiver.Close)
	receiver.Answer(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		requests = append(requests, time.Now())
		mu.Unlock()
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	arrived := func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return requests[:len(requests):len(requests)]
	}

	path, address := configure(t, t.TempDir(), "data: data", destination("crm", receiver.URL))
	c := serve(t, path, address, nil)
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 2, Batch: 20, Rate: 400}
	stop := send(t, load)
	inside, seen := 0, 0
	for kill := range kills {
		waitFor(t, time.Minute, "the receiver has requested a pause", func() bool { return len(arrived()) > seen })
		time.Sleep(time.Duration(500+random.IntN(1000)) * time.Millisecond) // until a random moment of the pause
		c.Kill()
		before := arrived()
		until := before[len(before)-1].Add(retryAfter)
		c = serve(t, path, address, nil)
		left := time.Until(until)
		time.Sleep(left)
		early := 0
		for _, at := range arrived()[len(before):] {
			if at.Before(until) {
				early++
			}
		}
		inside, seen = inside+early, len(before)
		t.Logf("kill %d: ready %v before the end of the pause, %d requests inside it", kill+1, left, early)
	}
	stop()
	assert.Zero(t, inside, "requests inside a pause")
	receiver.Answer(nil)
	wantAll(t, load, receiver, settled(t, c)["crm"], 0)
	verify(t, c)
}
