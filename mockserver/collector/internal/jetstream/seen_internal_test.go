package jetstream

import (
	"iter"
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

// TestSeenReportsDeletedMessage deletes a message of CALLS. Its record stays in the server's file, but its
// calls are lost, so Seen must not report them as stored.
func TestSeenReportsDeletedMessage(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, j.Close()) }()
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{{Source: "web", ID: id, Body: []byte("{}")}}}))
	}
	seen := func() (all []string, err error) {
		err = j.Seen(within(t), time.Time{}, 1000, func(_ string, ids iter.Seq[string]) bool {
			all = slices.AppendSeq(all, ids)
			return true
		})
		return all, err
	}
	all, err := seen()
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, all)

	js, err := jetstream.New(j.conns.out)
	require.NoError(t, err)
	stream, err := js.Stream(within(t), j.Names.Stream(record.StreamCalls))
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(within(t), stream.CachedInfo().State.LastSeq-1))
	all, err = seen()
	require.ErrorIs(t, err, record.ErrDamaged)
	assert.Equal(t, []string{"a"}, all)
}
