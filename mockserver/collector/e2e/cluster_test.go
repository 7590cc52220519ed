package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestClusterLosesNothing runs two collectors on three NATS servers, and kills servers and
// collectors under load. The collectors share the work and lose no call. A collector and a
// server that lost their disks catch up.
func TestClusterLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute")
	}
	t.Parallel()
	kills := full(t, "COLLECTOR_CLUSTER_KILLS", 1)
	random := rand.New(rand.NewPCG(2, uint64(kills)))
	nodes := newCluster(t)
	hook := harness.NewReceiver()
	t.Cleanup(hook.Close)

	var collectors [2]*harness.Collector
	var paths, addresses [2]string
	store := fmt.Sprintf("nats: {url: '%s'}\nlimits: {queue: 1GB}", urls(nodes))
	for i := range collectors {
		paths[i], addresses[i] = configure(t, t.TempDir(), store, destination("hook", hook.URL))
		collectors[i] = serve(t, paths[i], addresses[i], nil)
	}
	load := &harness.Load{URLs: []string{collectors[0].URL, collectors[1].URL}, WriteKey: writeKey, Senders: 4, Batch: 20, Rate: 500}
	stop := send(t, load)

	for kill := range kills {
		time.Sleep(time.Duration(1000+random.IntN(1500)) * time.Millisecond) // until a random moment
		what := ""
		if kill%3 == 0 {
			i := random.IntN(len(collectors))
			what = fmt.Sprintf("collector %d", i+1)
			collectors[i].Kill()
			collectors[i] = serve(t, paths[i], addresses[i], nil)
		} else {
			n := nodes[random.IntN(len(nodes))]
			what = "server " + n.Name
			n.process.Kill()
			time.Sleep(time.Second)
			n.start(t)
		}
		progress(t, load, hook)
		t.Logf("kill %d, of %s: %d calls taken, %d delivered, %d repeated", kill+1, what, load.Sent.Load(), hook.Got.Load(), hook.Again.Load())
	}

	// One server loses its disk.
	lost := nodes[random.IntN(len(nodes))]
	lost.process.Kill()
	require.NoError(t, os.RemoveAll(lost.Dir))
	require.NoError(t, os.Mkdir(lost.Dir, 0o700))
	lost.start(t)
	progress(t, load, hook)
	stop()
	caughtUp(t, nodes)

	all := settled(t, collectors[0])
	wantAll(t, load, hook, all["hook"], int64((kills+1)*load.Senders*load.Batch))
	for i, c := range collectors {
		verify(t, c)
		assert.Equal(t, all["hook"], settled(t, c)["hook"], "collector %d tells the same", i+1)
		assert.Positive(t, delivered(t, c), "collector %d did its share", i+1)
	}
	t.Logf("%d calls, %d of them repeated", load.Sent.Load(), hook.Again.Load())
}

// progress waits until calls are accepted and delivered again.
func progress(t *testing.T, load *harness.Load, r *harness.Receiver) {
	t.Helper()
	sent, got := load.Sent.Load()+100, r.Got.Load()+100
	waitFor(t, 2*time.Minute, "calls are taken and delivered", func() bool { return load.Sent.Load() >= sent && r.Got.Load() >= got })
}

// delivered returns the number of calls that a collector has delivered since its start.
func delivered(t *testing.T, c *harness.Collector) float64 {
	t.Helper()
	metrics, err := c.Metrics(t.Context())
	require.NoError(t, err)
	return metrics[`collector_deliveries_total{destination="hook",result="delivered"}`]
}
