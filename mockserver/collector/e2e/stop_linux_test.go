package e2e

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestStoppedCollectorStoresRetriesOnce stops the collector with SIGSTOP until the requests of
// its senders time out. The senders retry their calls, also after a restart of the collector.
func TestStoppedCollectorStoresRetriesOnce(t *testing.T) {
	t.Parallel()
	stops := full(t, "COLLECTOR_STOPS", 4)
	hook := harness.NewReceiver()
	t.Cleanup(hook.Close)
	path, address := configure(t, t.TempDir(), "data: data", destination("hook", hook.URL))
	c := serve(t, path, address, nil)
	load := sendImpatiently(t, hook, c.URL, func() {
		for range stops {
			time.Sleep(time.Duration(200+rand.IntN(300)) * time.Millisecond) // until a random moment
			stopFor(t, time.Second, c.Process)
		}
		stopFor(t, time.Second, c.Process)
		c.Kill()
		c = serve(t, path, address, nil)
	})
	wantAll(t, load, hook, settled(t, c)["hook"], 0)
	verify(t, c)
}

// TestStoppedClusterStoresRetriesOnce stops the servers of a cluster until the requests of the
// senders and of the collector time out.
func TestStoppedClusterStoresRetriesOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	stops := full(t, "COLLECTOR_STOPS", 1)
	nodes := newCluster(t)
	hook := harness.NewReceiver()
	t.Cleanup(hook.Close)
	path, address := configure(t, t.TempDir(), fmt.Sprintf("nats: {url: '%s'}\nlimits: {queue: 1GB}", urls(nodes)), destination("hook", hook.URL))
	c := serve(t, path, address, nil)
	load := sendImpatiently(t, hook, c.URL, func() {
		for range stops {
			for _, pause := range []time.Duration{2 * time.Second, 12 * time.Second} {
				time.Sleep(time.Duration(500+rand.IntN(500)) * time.Millisecond) // until a random moment
				stopFor(t, pause, nodes[0].process, nodes[1].process, nodes[2].process)
			}
		}
	})
	wantAll(t, load, hook, settled(t, c)["hook"], 0)
	verify(t, c)
}

// sendImpatiently sends calls while trouble runs. The senders have a short timeout and retry.
func sendImpatiently(t *testing.T, hook *harness.Receiver, url string, trouble func()) *harness.Load {
	t.Helper()
	load := &harness.Load{URLs: []string{url}, WriteKey: writeKey, Senders: 8, Batch: 10, Rate: 1000, Timeout: 600 * time.Millisecond}
	stop := send(t, load)
	trouble()
	progress(t, load, hook)
	stop()
	t.Logf("%d calls taken; %d requests came to no answer, %d were refused", load.Sent.Load(), load.Errors.Load()-load.Refused.Load(), load.Refused.Load())
	assert.Greater(t, load.Errors.Load(), load.Refused.Load(), "no sender gave up")
	return load
}

// stopFor stops processes and continues them after a pause.
func stopFor(t *testing.T, pause time.Duration, processes ...*harness.Process) {
	t.Helper()
	for _, p := range processes {
		require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGSTOP))
	}
	time.Sleep(pause)
	for _, p := range processes {
		require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGCONT))
	}
}
