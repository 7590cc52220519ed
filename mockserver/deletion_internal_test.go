package mockserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestOutcomesOfARequestThatIsBeingForgotten: its chunks go before its record.
func TestOutcomesOfARequestThatIsBeingForgotten(t *testing.T) {
	state := NewMemoryState()
	c, err := NewCollector(EngineConfig{
		AnyWriteKey: true, State: state,
		Destinations: []Destination{{Name: "d", Paused: true, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	d, err := c.DeleteUsers(t.Context(), DeletionRequest{UserIDs: []string{"u"}, Source: "s"})
	require.NoError(t, err)
	key := digest(d.ID)
	r, err := c.deletions.load(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, state.Delete(t.Context(), "deletionchunk."+key))

	ended := Ended{CallID: r.messageID(key, "s", 0), Source: "s", Destination: "d", At: time.Now(), Outcome: Outcome{State: StateDelivered}}
	assert.NoError(t, c.deletions.storeOf(t.Context(), key, []Ended{ended}))
	keys, err := state.Keys(t.Context(), "deletionchunk."+key)
	require.NoError(t, err)
	assert.Empty(t, keys, "nothing is made anew")

	w := &deletionWork{deletions: c.deletions, key: key, record: r}
	assert.ErrorIs(t, w.conclude(t.Context(), 0, func(int) (deletionEnd, bool) { return deletionEnd{}, false }), ErrNoState)
}
