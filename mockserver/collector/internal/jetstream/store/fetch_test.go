package store

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMetadata compares Metadata with the implementation of the NATS client.
func TestMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		ok    bool
	}{
		"without a domain":            {"$JS.ACK.s-CALLS.d=crm.2.7.5.1763824800123456789.1000", true},
		"a domain":                    {"$JS.ACK.hub.hash.s-CALLS.d=crm.2.7.5.1763824800123456789.0", true},
		"an empty domain":             {"$JS.ACK._.hash.s-CALLS.d=crm.2.7.5.1763824800123456789.0.random", true},
		"additional fields":           {"$JS.ACK._.hash.s-CALLS.d=crm.2.7.5.1763824800123456789.0.random.more", true},
		"empty":                       {"", false},
		"too few fields":              {"$JS.ACK.s-CALLS.d=crm.2.7.5.1763824800123456789", false},
		"a domain without an account": {"$JS.ACK.hub.s-CALLS.d=crm.2.7.5.1763824800123456789.0", false},
		"another subject":             {"_INBOX.ACK.s-CALLS.d=crm.2.7.5.1763824800123456789.1000", false},
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

// TestBatchReportsOvertakeMessages sends reports before messages. A replicated consumer immediately
// reports that the next message is too large or the batch is complete, but it sends messages only
// when its servers agree.
func TestBatchReportsOvertakeMessages(t *testing.T) {
	full := func(pending int) *nats.Msg {
		return &nats.Msg{Header: nats.Header{
			"Status": {"409"}, "Description": {"Message Size Exceeds MaxBytes"}, "Nats-Pending-Messages": {strconv.Itoa(pending)},
		}}
	}
	for _, before := range []int{0, 1, 3} {
		b := newBatch(t.Context(), 10, time.Minute)
		b.single = func() error { return errors.New("a single message was requested") }
		for i := range 3 {
			if i == before {
				b.receive(full(7))
			}
			b.receive(&nats.Msg{Data: []byte("x")})
		}
		if before == 3 {
			b.receive(full(7))
		}
		received := 0
		for range b.Messages() {
			received++
		}
		assert.Equal(t, 3, received, "%d messages before the report", before)
		assert.NoError(t, b.Error())
	}

	b := newBatch(t.Context(), 1, time.Minute)
	b.receive(&nats.Msg{Header: nats.Header{"Status": {"409"}, "Description": {"Batch Completed"}}})
	b.receive(&nats.Msg{Data: []byte("x")})
	_, received := <-b.Messages()
	assert.True(t, received)
	assert.NoError(t, b.Error())

	b = newBatch(t.Context(), 10, time.Minute)
	requested := false
	b.single = func() error { requested = true; return nil }
	b.receive(full(10))
	assert.True(t, requested, "a message that is too large for a batch is requested alone")
	b.receive(&nats.Msg{Data: []byte("x")})
	<-b.Messages()
	_, more := <-b.Messages()
	assert.False(t, more)
}
