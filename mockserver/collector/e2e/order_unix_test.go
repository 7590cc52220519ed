//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestClusterKeepsTheOrder kills servers and the collector that delivers in order, while calls
// of several users arrive and some deliveries fail. It also stops that collector until another
// one has taken over.
func TestClusterKeepsTheOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	t.Parallel()
	turns := full(t, "COLLECTOR_CLUSTER_KILLS", 2)
	random := rand.New(rand.NewPCG(3, uint64(turns)))
	nodes := newCluster(t)
	receiver := newOrderedReceiver(t)
	var collectors [2]*harness.Collector
	var paths, addresses [2]string
	for i := range collectors {
		paths[i], addresses[i] = configure(t, t.TempDir(), fmt.Sprintf("nats: {url: '%s'}\nlimits: {queue: 1GB}", urls(nodes)), inOrder(receiver))
		collectors[i] = serve(t, paths[i], addresses[i], nil)
	}
	senders := sendInOrder(t, 800*time.Millisecond, collectors[0].URL, collectors[1].URL)

	// delivering returns the collector that delivers.
	delivering := func() (i int) {
		t.Helper()
		var before [2]float64
		for i, c := range collectors {
			before[i] = delivered(t, c)
		}
		waitFor(t, 2*time.Minute, "calls are delivered", func() bool {
			for i = range collectors {
				if delivered(t, collectors[i]) > before[i] {
					return true
				}
			}
			return false
		})
		return i
	}
	for turn := range turns {
		time.Sleep(time.Duration(1000+random.IntN(1500)) * time.Millisecond) // until a random moment
		i := delivering()
		switch turn % 3 {
		case 0:
			collectors[i].Kill()
			collectors[i] = serve(t, paths[i], addresses[i], nil)
			senders.moved(i, collectors[i].URL)
		case 1:
			knows := func() int { return strings.Count(collectors[i].Log(), "may no longer deliver in order") }
			known := knows()
			require.NoError(t, syscall.Kill(collectors[i].Pid(), syscall.SIGSTOP))
			receiver.stop()
			other := collectors[1-i]
			before := delivered(t, other)
			waitFor(t, 2*time.Minute, "another collector takes over", func() bool { return delivered(t, other) > before })
			require.NoError(t, syscall.Kill(collectors[i].Pid(), syscall.SIGCONT))
			waitFor(t, time.Minute, "it knows that", func() bool { return knows() > known })
			receiver.goOn()
		case 2:
			n := nodes[random.IntN(len(nodes))]
			n.process.Kill()
			time.Sleep(time.Second)
			n.start(t)
		}
		t.Logf("turn %d, of collector %d", turn, i)
	}
	delivering()
	caughtUp(t, nodes)
	senders.end(collectors[0], receiver)
	verify(t, collectors[1])
}
