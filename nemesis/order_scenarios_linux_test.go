package main

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// After recovery, nine of ten waiting calls are delivered within drainEach per call, after a
// probe or, on a cluster, a takeover. The others may fail several times in a row, with longer
// delays each time.
const (
	drainProbe    = 5 * time.Second
	drainTakeover = 20 * time.Second
	drainEach     = 10 * time.Millisecond
	drainRest     = 20 * time.Second
	// drainShared multiplies the times in the gate, which runs one round beside other tests.
	drainShared = 5
)

// ordered configures a destination with order: user. The receiver fails 15 % of its requests.
func ordered(r *rig) {
	r.hook = "order: user,"
	r.receiver.order = true
	r.receiver.bad.Store(15)
	r.receiver.delay.Store(int64(time.Millisecond))
	r.load.Batch, r.load.Singly, r.load.ManyUsers, r.load.Rate = 10, false, true, 200
}

// receiverDown makes the receiver respond with errors or refuse connections. It returns a function
// that restores the receiver.
func receiverDown(r *rig) (up func()) {
	if r.random.IntN(2) == 0 {
		r.result.note("status 503")
		r.receiver.answer.Store(http.StatusServiceUnavailable)
		return func() { r.receiver.answer.Store(0) }
	}
	r.result.note("refused connections")
	at, err := url.Parse(r.receiver.url)
	require.NoError(r, err)
	r.receiver.refuse()
	return func() { r.receiver.listen(r.T, at.Port()) }
}

// drains waits until all accepted calls are delivered, and checks their order. patience is how
// long the delivery may take to begin.
func drains(r *rig, patience time.Duration) {
	r.Helper()
	accepted, before := int(r.load.Sent.Load()), r.receiver.distinct("hook")
	waiting := accepted - before
	begin, within, rest := time.Now(), patience+time.Duration(waiting)*drainEach, drainRest
	if number(r.T, "NEMESIS_ROUNDS", 1) == 1 {
		within, rest = drainShared*within, drainShared*rest
	}
	for _, part := range []struct {
		calls  int
		within time.Duration
	}{{waiting * 9 / 10, within}, {waiting, within + rest}} {
		for r.receiver.distinct("hook") < before+part.calls && time.Since(begin) < part.within {
			time.Sleep(10 * time.Millisecond)
		}
		r.result.note("%d of %d waiting calls were delivered in %v", part.calls, waiting, time.Since(begin).Round(100*time.Millisecond))
		assert.GreaterOrEqual(r, r.receiver.distinct("hook")-before, part.calls, "calls that were delivered within %v", part.within)
	}
	assert.Empty(r, first(r.receiver.disorder(), 5))
}

// orderedOutage kills a collector while its receiver is down.
func orderedOutage(r *rig) {
	ordered(r)
	r.loaded(300)
	for range 2 {
		up := receiverDown(r)
		r.progress(300)
		r.kill()
		r.start()
		r.progress(300)
		up()
		drains(r, drainProbe)
	}
	r.finish()
}

// clusterOrderedOutage disconnects the delivering collector from the servers, or kills it, while
// the receiver is down.
func clusterOrderedOutage(r *rig) {
	ordered(r)
	c := loadedCluster(r, 2)
	c.delivers(100)
	before := c.scheduled()
	for range 2 {
		up := receiverDown(r)
		c.progress(300)
		m := c.deliverer()
		if c.random.IntN(2) == 0 {
			c.result.note("cut off")
			c.net.Isolate(m.Host)
			c.sleep(time.Second, 20*time.Second)
			c.net.Heal()
		} else {
			c.result.note("killed")
			m.process.Kill()
			require.NoError(c, m.start())
		}
		c.awaitReady(m)
		c.progress(300)
		up()
		drains(r, drainTakeover)
	}
	grew := c.scheduled() - before
	c.result.note("RETRY grew by %d, %d requests failed", grew, c.receiver.failed.Load())
	assert.LessOrEqual(c, int64(grew), c.receiver.failed.Load())
	c.end()
}

// deliverer returns the collector that delivers the calls of the ordered destination. If it is
// unknown, deliverer returns the last collector.
func (c *cluster) deliverer() *machine {
	c.Helper()
	var which *machine
	most := -1
	for _, m := range c.collectors {
		log := m.process.Log()
		held := strings.Count(log, "are delivered in order by this collector") - strings.Count(log, "may no longer deliver in order")
		if held > most {
			which, most = m, held
		}
	}
	return which
}

// scheduled returns the number of messages that have ever been stored in the stream RETRY.
func (c *cluster) scheduled() (n int) {
	c.Helper()
	c.await("a server reports the state of RETRY", func() bool {
		for _, m := range c.nodes {
			var answer struct {
				Accounts []struct {
					Streams []struct {
						Name  string
						State struct {
							Last int `json:"last_seq"`
						}
					} `json:"stream_detail"`
				} `json:"account_details"`
			}
			if getJSON("http://"+m.Address+":8222/jsz?accounts=true&streams=true", &answer) != nil {
				continue
			}
			for _, a := range answer.Accounts {
				for _, s := range a.Streams {
					if strings.HasSuffix(s.Name, "-RETRY") {
						n = max(n, s.State.Last)
					}
				}
			}
			return true
		}
		return false
	})
	return n
}
