package jetstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestLateOutcomeOfDetachedDestinationIsIgnored applies an outcome after another destination with
// the same name was attached.
func TestLateOutcomeOfDetachedDestinationIsIgnored(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	_, err = j.Attach(within(t), "crm", nil)
	require.NoError(t, err)
	o := &record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 1}, Attempt: 1, Failed: []record.Failure{{Place: 0, Reason: "because"}}}
	j.ledger.With("crm", func(a *ledger.Account) { o.Attached = a.Attached })
	given := []tracking.Call{{Source: "web", ID: "m", Body: []byte(`{"type":"track","messageId":"m"}`)}}
	failed := func() (n int) {
		require.NoError(t, j.Failed(within(t), "crm", func(journal.FailedCall) bool { n++; return true }))
		return n
	}
	require.NoError(t, j.Settle(o, given, nil))
	assert.Equal(t, 1, failed())

	require.NoError(t, j.Detach(within(t), "crm"))
	_, err = j.Attach(within(t), "crm", nil)
	require.NoError(t, err)
	require.NoError(t, j.Settle(o, given, nil))
	assert.Zero(t, failed())
}
