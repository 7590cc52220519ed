package store

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A laggard is a leader that has messages only up to a sequence number. Each query of its state adds a
// message.
type laggard struct {
	Streams
	last, lost uint64
}

func (l *laggard) Get(_ context.Context, _ string, seq uint64) (*jetstream.RawStreamMsg, error) {
	if seq > l.last || seq == l.lost {
		return nil, jetstream.ErrMsgNotFound
	}
	calls := nats.Header{}
	calls.Set(record.HeaderCalls, "1")
	record.SetTime(calls, time.Now())
	return &jetstream.RawStreamMsg{Subject: "test.c.web", Sequence: seq, Header: calls, Data: record.AppendSegment([]byte{record.CallsFormat}, [][]byte{[]byte("{}")})}, nil
}

func (l *laggard) Info(context.Context, string) (*jetstream.StreamInfo, error) {
	l.last++
	return &jetstream.StreamInfo{State: jetstream.StreamState{LastSeq: l.last}}, nil
}

// TestLaggingServerMissesNoMessage checks that a message counts as missing only if the server's last sequence number
// is not before it.
func TestLaggingServerMissesNoMessage(t *testing.T) {
	for name, c := range map[string]struct {
		leader  laggard
		shared  bool
		missing bool
		err     string
	}{
		"stored":                    {laggard{last: 7}, true, false, ""},
		"stored in the meantime":    {laggard{last: 6}, true, false, ""},
		"not reached":               {laggard{last: 5}, true, false, "the server has CALLS only up to message 6"},
		"lost":                      {laggard{last: 6, lost: 7}, true, true, "message not found"},
		"lost by the only server":   {laggard{last: 7, lost: 7}, false, true, "message not found"},
		"beyond an embedded server": {laggard{last: 5}, false, true, "message not found"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New("test", c.shared, slog.New(slog.DiscardHandler))
			defer s.Cancel(nil)
			s.JS = &c.leader
			_, bodies, err := s.LoadCalls(t.Context(), 7)
			assert.Equal(t, c.missing, IsMissing(err))
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NoError(t, err)
			assert.Len(t, bodies, 1)
		})
	}
}
