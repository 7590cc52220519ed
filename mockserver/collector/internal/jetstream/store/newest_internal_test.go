package store

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestNewestAttemptsFitLimit reads messages with one record each, with every limit.
func TestNewestAttemptsFitLimit(t *testing.T) {
	const messages, size = 3 * firstRead, 10
	s := New("test", false, slog.New(slog.DiscardHandler))
	s.Status.Up()
	nc, err := nats.Connect("", nats.InProcessServer(fakenats.New(false)))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	s.JS, err = Connected(nc)
	require.NoError(t, err)
	require.NoError(t, s.JS.Create(t.Context(), jetstream.StreamConfig{Name: s.Names.Stream(record.StreamAttempts), Subjects: []string{s.Names.Subject("t")}}))
	l := NewAttemptLog(s, func() bool { return false })
	for i := range messages {
		l.Record(fmt.Appendf(nil, "%0*d", size, i))
		l.flush()
	}
	for limit := range messages*size + 2 {
		records, next, err := l.Newest(t.Context(), limit)
		require.NoError(t, err)
		require.Equal(t, uint64(messages+1), next)
		require.Len(t, records, limit/size, "limit %d", limit)
		for i, r := range records {
			require.Equal(t, fmt.Sprintf("%0*d", size, messages-len(records)+i), string(r))
		}
	}
}
