package jetstream_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestLostStreamsOfAClusterAreReported removes a stream of a cluster. A start must create the stream
// again only if the operator accepts the loss, and must count the loss.
func TestLostStreamsOfAClusterAreReported(t *testing.T) {
	if testing.Short() {
		t.Skip("each start repeats its checks")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		lost []string
		says string
		sums string // totals after the loss was accepted
	}{
		"CALLS":           {[]string{"CALLS"}, "40 pending deliveries (according to the newest ledger) and all newer ones are lost", "100 = 60 + 0 + 0 + 0"},
		"OUTCOMES":        {[]string{"OUTCOMES"}, "calls finished after its message 1 will be delivered again", "100 = 60 + 0 + 0 + 40"},
		"both":            {[]string{"CALLS", "OUTCOMES"}, "40 pending deliveries (according to the newest ledger) and all newer ones are lost", "100 = 60 + 0 + 0 + 0"},
		"CALLS, STATE":    {[]string{"CALLS", "STATE"}, "0 pending deliveries", ""},
		"OUTCOMES, STATE": {[]string{"OUTCOMES", "STATE"}, "calls finished after its message 0 will be delivered again", "100 = 0 + 0 + 0 + 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := startServer(t, func(*server.Options) {})
			options := jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}}
			j := open(t, options)
			r := attach(t, j, "d")
			appendCalls(t, j, "web", "m", 60)
			work(t, r, 60, delivered)
			appendCalls(t, j, "web", "n", 40)
			verified(t, j, "d")
			ok(t, j.Close())
			nc, err := nats.Connect(s.ClientURL())
			require.NoError(t, err)
			defer nc.Close()
			js, err := natsjetstream.New(nc)
			require.NoError(t, err)
			for _, kind := range c.lost {
				require.NoError(t, js.DeleteStream(within(t), "analytics-"+kind))
			}

			_, err = jetstream.Open(within(t), options)
			require.ErrorIs(t, err, record.ErrDamaged)
			assert.ErrorContains(t, err, "the stream analytics-"+c.lost[0]+" is missing on the cluster")
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, "--accept-loss")
			_, err = js.Stream(within(t), "analytics-"+c.lost[0])
			require.ErrorIs(t, err, natsjetstream.ErrStreamNotFound, "it is not created")

			accepting := options
			accepting.AcceptLoss = true
			j = open(t, accepting)
			attach(t, j, "d") // the attachment may be lost with STATE
			left := verified(t, j, "d")
			if c.sums != "" {
				assert.Equal(t, c.sums, sums(left))
			}
			ok(t, j.Close())
			j = open(t, options) // the loss is now recorded
			appendCalls(t, j, "web", "after", 10)
			work(t, attach(t, j, "d"), int(left.Pending)+10, delivered)
			after := verified(t, j, "d")
			assert.Zero(t, after.Pending)
			assert.Equal(t, left.Accepted+10, after.Accepted)
		})
	}
}
