package jetstream_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/natsnode"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// leader returns the server that leads a consumer.
func (c *cluster) leader(consumer string) int {
	c.t.Helper()
	nc, err := nats.Connect(c.url())
	require.NoError(c.t, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	require.NoError(c.t, err)
	leader := -1
	await(c.t, consumer+" has a leader", func() bool {
		have, err := js.Consumer(within(c.t), "analytics-CALLS", consumer)
		if err == nil && have.CachedInfo().Cluster != nil {
			leader = slices.IndexFunc(c.nodes, func(n *natsnode.Node) bool { return n.Name == have.CachedInfo().Cluster.Leader })
		}
		return leader >= 0
	})
	return leader
}

// TestWorkIsSharedAfterLeaderLoss stops the leader of a consumer while three collectors wait for
// its messages.
func TestWorkIsSharedAfterLeaderLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: three servers")
	}
	t.Parallel() // the test mostly waits
	c := startCluster(t)
	shares := make(chan int, 1000) // receives the number of a collector for each received message
	for i := range 3 {
		j := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: c.url()}})
		r := attach(t, j, "crm")
		for range 4 {
			go func() {
				for {
					l, err := r.Next(t.Context(), journal.Want{})
					if err != nil {
						return
					}
					_ = l.Finish(within(t), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}})
					shares <- i
				}
			}()
		}
	}
	sender := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: c.url()}})
	send := func(what string) {
		got := map[int]bool{}
		began := time.Now()
		for n := 0; len(got) < 3; n++ {
			if time.Since(began) > 2*patience {
				t.Fatalf("%s: after %v only %v got something", what, time.Since(began), got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_ = sender.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", fmt.Sprint(what, n, "."), 1)})
			cancel()
			for {
				select {
				case i := <-shares:
					got[i] = true
					continue
				case <-time.After(20 * time.Millisecond):
				}
				break
			}
		}
		t.Logf("%s: all have got something after %v", what, time.Since(began))
	}
	send("before")
	stopped := c.leader("d-crm")
	require.NoError(t, syscall.Kill(c.servers[stopped].Pid(), syscall.SIGSTOP))
	send("stopped")
	require.NoError(t, syscall.Kill(c.servers[stopped].Pid(), syscall.SIGCONT))
	c.ready()
	send("continued")
	killed := c.leader("d-crm")
	c.kill(killed)
	send("killed")
}

func TestExpiredRequestsAreRepeated(t *testing.T) {
	s, _ := startServer(t, func(*server.Options) {})
	j := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}})
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	var requests []*nats.Subscription
	for _, stream := range []string{"CALLS", "RETRY"} {
		r, err := nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.analytics-" + stream + ".d-crm")
		require.NoError(t, err)
		requests = append(requests, r)
	}
	require.NoError(t, nc.Flush())
	r := attach(t, j, "crm")
	go func() { _, _ = r.Next(t.Context(), journal.Want{}) }()
	for _, r := range requests {
		request, err := r.NextMsg(patience)
		require.NoError(t, err, "first request")
		gone := nats.NewMsg(request.Reply)
		gone.Header.Set("Status", "409")
		gone.Header.Set("Description", "Leadership Change")
		require.NoError(t, nc.PublishMsg(gone))
		_, err = r.NextMsg(8 * time.Second) // the server reports an expiry after a minute
		require.NoError(t, err, "second request")
	}
}
