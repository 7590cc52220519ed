package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
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
	l := attemptLogOf(t, slog.DiscardHandler, messages, size)
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

// TestUnreadableAttemptsAreReported reads a stream without two messages.
func TestUnreadableAttemptsAreReported(t *testing.T) {
	var log bytes.Buffer
	const messages = 3 * firstRead
	l := attemptLogOf(t, slog.NewTextHandler(&log, nil), messages, 10)
	for _, seq := range []uint64{4, 5} {
		require.NoError(t, l.store.JS.Delete(t.Context(), l.store.Names.Stream(record.StreamAttempts), seq))
	}
	records, next, err := l.Newest(t.Context(), 1<<20)
	require.NoError(t, err)
	require.Len(t, records, messages-2)
	require.Equal(t, uint64(messages+1), next)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), `level=WARN msg="attempts cannot be read; the history lacks them" first=4 last=5`)
}

// attemptLogOf returns a log with messages of one record each, which contains the index of the message
// in the given number of digits.
func attemptLogOf(t *testing.T, log slog.Handler, messages, digits int) *AttemptLog {
	t.Helper()
	s := New("test", false, slog.New(log))
	s.Status.Up()
	nc, err := nats.Connect("", nats.InProcessServer(fakenats.New(false)))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	s.JS, err = Connected(nc)
	require.NoError(t, err)
	require.NoError(t, s.JS.Create(t.Context(), jetstream.StreamConfig{Name: s.Names.Stream(record.StreamAttempts), Subjects: []string{s.Names.Subject("t")}}))
	l := NewAttemptLog(s, func() bool { return false })
	for i := range messages {
		l.Record(fmt.Appendf(nil, "%0*d", digits, i))
		l.flush()
	}
	return l
}
