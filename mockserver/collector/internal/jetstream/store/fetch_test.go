package store

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMetadata holds what is read of a reply against what the client of NATS reads.
func TestMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		ok    bool
	}{
		"a server of its own":  {"$JS.ACK.s-CALLS.d=crm.2.7.5.1763824800123456789.1000", true},
		"a domain":             {"$JS.ACK.hub.hash.s-CALLS.d=crm.2.7.5.1763824800123456789.0", true},
		"no domain":            {"$JS.ACK._.hash.s-CALLS.d=crm.2.7.5.1763824800123456789.0.random", true},
		"more than is known":   {"$JS.ACK._.hash.s-CALLS.d=crm.2.7.5.1763824800123456789.0.random.more", true},
		"nothing":              {"", false},
		"too few fields":       {"$JS.ACK.s-CALLS.d=crm.2.7.5.1763824800123456789", false},
		"neither one nor both": {"$JS.ACK.hub.s-CALLS.d=crm.2.7.5.1763824800123456789.0", false},
		"another subject":      {"_INBOX.ACK.s-CALLS.d=crm.2.7.5.1763824800123456789.1000", false},
	} {
		m := message{&nats.Msg{Reply: c.reply, Sub: &nats.Subscription{}}}
		got, err := m.Metadata()
		want, wantErr := m.Msg.Metadata()
		require.Equal(t, c.ok, wantErr == nil, name)
		if !c.ok {
			assert.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, jetstream.MsgMetadata{
			Sequence:     jetstream.SequencePair(want.Sequence),
			NumDelivered: want.NumDelivered, NumPending: want.NumPending, Timestamp: want.Timestamp,
			Stream: want.Stream, Consumer: want.Consumer, Domain: want.Domain,
		}, *got, name)
	}
	_, err := message{&nats.Msg{Reply: "$JS.ACK.s-CALLS.d=crm.2.x.5.1763824800123456789.1000"}}.Metadata()
	assert.ErrorContains(t, err, "invalid syntax")
}
