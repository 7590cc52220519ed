package jetstream

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// seenCalls returns the IDs that Seen yields.
func seenCalls(t *testing.T, j *Journal) (all []string, err error) {
	err = j.Seen(within(t), time.Time{}, 1000, func(_ string, ids iter.Seq[string]) bool {
		all = slices.AppendSeq(all, ids)
		return true
	})
	return all, err
}

// appendCalls appends a message for each ID.
func appendCalls(t *testing.T, j *Journal, ids ...string) {
	for _, id := range ids {
		require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{{Source: "web", ID: id, Body: []byte("{}")}}}))
	}
}

// TestSeenContinuesAfterTheFiles makes a record of the server's file unreadable. The server still has the
// message in memory, so Seen reads it and the messages after it from the server, and each call once.
func TestSeenContinuesAfterTheFiles(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, j.Close()) }()
	appendCalls(t, j, "a", "b", "c")
	calls, err := j.Measure(within(t), record.StreamCalls)
	require.NoError(t, err)
	file := filepath.Join(j.local.files.StreamsDir(), j.Names.Stream(record.StreamCalls), "msgs", "1.blk")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	damaged := slices.Clone(whole)
	damaged[len(whole)*5/6] ^= 1
	require.NoError(t, os.WriteFile(file, damaged, 0o600))
	next, err := j.readFiles(record.Span{First: 1, Last: calls.LastSeq}, func(*record.Calls) error { return nil })
	require.NoError(t, err)
	require.True(t, 1 < next && next <= calls.LastSeq, "the file is readable up to message %d", next)
	all, err := seenCalls(t, j)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, all)
	require.NoError(t, os.WriteFile(file, whole, 0o600))
}

// TestSeenReportsDeletedMessage deletes a message of CALLS. Its record stays in the server's file, but its
// calls are lost, so Seen must not report them as stored.
func TestSeenReportsDeletedMessage(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, j.Close()) }()
	appendCalls(t, j, "a", "b", "c")
	all, err := seenCalls(t, j)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, all)

	js, err := jetstream.New(j.conns.out)
	require.NoError(t, err)
	stream, err := js.Stream(within(t), j.Names.Stream(record.StreamCalls))
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(within(t), stream.CachedInfo().State.LastSeq-1))
	all, err = seenCalls(t, j)
	require.ErrorIs(t, err, record.ErrDamaged)
	assert.Equal(t, []string{"a"}, all)
}
