package journal

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What follows from an outcome may be done late: by then the destination may be
// another one of the same name, which has given up nothing.
func TestNothingIsKeptOfADestinationThatWasDetached(t *testing.T) {
	j, err := Open(t.Context(), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	_, err = j.Attach(t.Context(), "crm", nil)
	require.NoError(t, err)
	o := &outcome{destination: "crm", ref: callsRef{seq: 1}, attempt: 1, failed: []failure{{0, "because"}}}
	j.account.with("crm", func(b *book) { o.attached = b.attached })
	given := []tracking.Call{{Source: "web", ID: "m", Body: []byte(`{"type":"track","messageId":"m"}`)}}
	failed := func() (n int) {
		require.NoError(t, j.Failed(t.Context(), "crm", func(journal.FailedCall) bool { n++; return true }))
		return n
	}
	require.NoError(t, j.settle(o, given))
	assert.Equal(t, 1, failed())

	require.NoError(t, j.Detach(t.Context(), "crm"))
	_, err = j.Attach(t.Context(), "crm", nil)
	require.NoError(t, err)
	require.NoError(t, j.settle(o, given))
	assert.Zero(t, failed())
}
