package e2e

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// repeatsPerKill limits the number of duplicates per kill. A duplicate is a call in flight
// whose outcome was not stored. Per destination, there are at most four entries of 128 calls
// in flight, or more entries with fewer calls in total.
const repeatsPerKill = 4 * 128

// TestKillsLoseNothing kills the collector repeatedly under load, while one destination fails
// from time to time. It checks that every accepted call arrives.
func TestKillsLoseNothing(t *testing.T) {
	t.Parallel()
	kills := full(t, "COLLECTOR_KILLS", 3)
	random := rand.New(rand.NewPCG(1, uint64(kills)))
	steady, shaky := harness.NewReceiver(), harness.NewReceiver()
	t.Cleanup(steady.Close)
	t.Cleanup(shaky.Close)
	var shake sync.WaitGroup
	stopShaking := make(chan struct{})
	shake.Go(func() {
		for up := false; ; up = !up {
			select {
			case <-stopShaking:
				shaky.Answer(nil)
				return
			case <-time.After(300 * time.Millisecond):
			}
			if up {
				shaky.Answer(nil)
			} else {
				shaky.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
			}
		}
	})

	path, address := configure(t, t.TempDir(), "data: data", destination("steady", steady.URL)+destination("shaky", shaky.URL))
	c := serve(t, path, address, nil)
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 4, Batch: 10, Rate: 750}
	stop := send(t, load)

	for kill := range kills {
		time.Sleep(time.Duration(300+random.IntN(700)) * time.Millisecond) // until a random moment
		c.Kill()
		c = serve(t, path, address, nil)
		verify(t, c)
		t.Logf("kill %d: ready after %v; %d calls taken, %d and %d deliveries, %d and %d repeated",
			kill+1, c.Startup, load.Sent.Load(), steady.Got.Load(), shaky.Got.Load(), steady.Again.Load(), shaky.Again.Load())
	}
	stop()
	close(stopShaking)
	shake.Wait()

	all := settled(t, c)
	wantAll(t, load, steady, all["steady"], 0)
	wantAll(t, load, shaky, all["shaky"], 0)
	verify(t, c)
	for name, r := range map[string]*harness.Receiver{"steady": steady, "shaky": shaky} {
		assert.LessOrEqual(t, r.Again.Load(), int64(kills*repeatsPerKill), "repeats at %s", name)
	}
	assert.NoError(t, c.Stop(), "it ends gracefully")
}
