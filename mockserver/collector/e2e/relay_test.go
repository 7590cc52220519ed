package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestRelaySurvivesKillsOfEither repeatedly kills one of two collectors at random moments under load.
// The first collector relays calls to the second, which must store and deliver each call exactly once.
func TestRelaySurvivesKillsOfEither(t *testing.T) {
	t.Parallel()
	kills := full(t, "COLLECTOR_RELAY_KILLS", 6)
	random := rand.New(rand.NewPCG(2, uint64(kills)))
	end := harness.NewReceiver()
	t.Cleanup(end.Close)
	var paths, addresses [2]string
	var collectors [2]*harness.Collector
	paths[1], addresses[1] = configure(t, t.TempDir(), "data: data", destination("end", end.URL))
	paths[0], addresses[0] = configure(t, t.TempDir(), "data: data",
		fmt.Sprintf("- {name: relay, type: relay, endpoint: 'http://%s', writeKey: %s, batch: {wait: 100ms}}\n", addresses[1], otherKey))
	for i := range collectors {
		collectors[i] = serve(t, paths[i], addresses[i], nil)
	}
	load := &harness.Load{URLs: []string{collectors[0].URL}, WriteKey: writeKey, Senders: 4, Batch: 10, Rate: 750}
	stop := send(t, load)

	for kill := range kills {
		time.Sleep(time.Duration(300+random.IntN(700)) * time.Millisecond) // until a random moment
		i := random.IntN(2)
		collectors[i].Kill()
		collectors[i] = serve(t, paths[i], addresses[i], nil)
		t.Logf("kill %d, of collector %d: %d calls sent, %d deliveries at the end", kill+1, i+1, load.Sent.Load(), end.Got.Load())
	}
	stop()

	relayed := settled(t, collectors[0])["relay"]
	delivered := settled(t, collectors[1])["end"]
	assert.Equal(t, load.Sent.Load(), relayed.Accepted)
	assert.Equal(t, relayed.Accepted, relayed.Delivered, "%+v", relayed)
	wantAll(t, load, end, delivered, 0)
	for _, c := range collectors {
		verify(t, c)
		assert.NoError(t, c.Stop(), "it ends gracefully")
	}
}
