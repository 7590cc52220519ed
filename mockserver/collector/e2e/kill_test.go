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

// repeatsPerKill is how many calls a kill may make a receiver get again: those
// whose delivery was not yet written down. Of each destination that is at most
// four entries of 128 calls at work, or more that have fewer together.
const repeatsPerKill = 4 * 128

// TestKillsLoseNothing kills the collector again and again while calls come in and
// go out, one destination failing now and then. What was answered 200 arrives.
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
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 4, Batch: 20, Rate: 1500}
	stop := send(t, load)

	for kill := range kills {
		time.Sleep(time.Duration(300+random.IntN(700)) * time.Millisecond) // a moment nobody chose
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
