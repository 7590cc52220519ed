package store

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
)

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
