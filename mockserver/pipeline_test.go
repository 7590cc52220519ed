package mockserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// randomFaults returns random faults of all kinds.
func randomFaults(random *rand.Rand, destination string) []mockserver.Fault {
	var faults []mockserver.Fault
	for range 5 + random.IntN(20) {
		f := mockserver.Fault{Destination: destination, AnswerOnly: random.IntN(3) == 0}
		if random.IntN(3) == 0 {
			f.Delay = time.Duration(random.IntN(4000)) * time.Millisecond
		}
		switch random.IntN(7) {
		case 0:
			f.Status = http.StatusServiceUnavailable
		case 1:
			f.Status, f.Header = http.StatusTooManyRequests, http.Header{"Retry-After": {fmt.Sprint(random.IntN(20))}}
		case 2:
			f.Reset = true
		case 3:
			f.Hang = true
		case 4:
			f.Status, f.Body, f.Reset, f.AnswerOnly = http.StatusOK, `{"succ`, true, true // a 200 must be truthful
		case 5:
			f.Status = http.StatusInternalServerError
		} // otherwise the fault has at most AnswerOnly and a delay
		faults = append(faults, f)
	}
	return faults
}

// A client, the collector and a receiver run under synctest with random faults between
// them. Every call that the client counts as delivered must be stored exactly once and
// reach the receiver unchanged with a valid signature.
func TestPipelineLosesNothingUnderRandomFaults(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runPipeline(t, rand.New(rand.NewPCG(seed, 2026))) })
		})
	}
}

func runPipeline(t *testing.T, random *rand.Rand) {
	const secret = "s3cret"
	var mu sync.Mutex
	got := map[string]int{} // number of deliveries by event
	receiver := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var call struct {
			Event      string
			Properties map[string]any
		}
		if err != nil || webhook.Verify(secret, body, r.Header.Get(webhook.SignatureHeader)) != nil || json.Unmarshal(body, &call) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got[call.Event]++
	})
	d := hook("d", "http://h/1", "http://h/2")
	d.SharedSecret = secret
	srv := mockserver.RunT(t, mockserver.Config{
		InProcess: true, Destinations: []tracking.Destination{d},
		Sender: webhook.SenderConfig{Transport: mockserver.NewTransport(receiver)},
	})
	srv.Fail(randomFaults(random, "")...)
	srv.FailDeliveries(randomFaults(random, "d")...)

	client := analytics.New("key")
	client.Endpoint, client.Client = srv.URL, http.Client{Transport: srv.Transport(), Timeout: 3 * time.Second}
	client.Logger = log.New(io.Discard, "", 0)
	client.FlushAt = 1 + random.IntN(30)
	n := 50 + random.IntN(150)
	for i := range n {
		require.NoError(t, client.Track(&analytics.Track{Event: fmt.Sprint("event ", i), UserId: "u", Properties: map[string]any{"i": i}}))
		if random.IntN(10) == 0 {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
	}
	_ = client.Close() // Stats counts undelivered calls
	stats := client.Stats()
	time.Sleep(5 * time.Hour)
	synctest.Wait()

	stored := srv.Calls()
	assert.GreaterOrEqual(t, int64(len(stored)), stats.Delivered, "each call that was answered 200 is stored")
	assert.LessOrEqual(t, len(stored), n, "and none twice")
	l := account(t, srv)
	assert.Equal(t, tracking.Ledger{Destination: "d", Accepted: int64(len(stored)), Delivered: int64(len(stored))}, l)
	mu.Lock()
	defer mu.Unlock()
	for _, c := range stored {
		assert.GreaterOrEqual(t, got[c.Event], 1, "%s", c.Event)
		assert.Contains(t, c.Context(), "library")
	}
}
