package users

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestOutcomesOfARequestThatIsBeingForgotten: its chunks go before its record.
func TestOutcomesOfARequestThatIsBeingForgotten(t *testing.T) {
	store := state.NewMemory()
	c := New(Config{
		Journal: journal.NewMemory(0), State: store, AnyWriteKey: true, Logger: slog.New(slog.DiscardHandler),
		SeenSources: func() []string { return nil },
		Settings: func() settings.Settings {
			return settings.Settings{Destinations: []tracking.Destination{{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}}}}
		},
	})
	c.deletions.work.stop() // what the request asks for is not begun with
	d, err := c.DeleteUsers(t.Context(), DeletionRequest{UserIDs: []string{"u"}, Source: "s"})
	require.NoError(t, err)
	key := digest.Of(d.ID)
	r, err := c.deletions.load(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), "deletionchunk."+key))

	ended := tracking.Ended{CallID: r.messageID(key, "s", 0), Source: "s", Destination: "d", At: time.Now(), Outcome: tracking.Outcome{State: tracking.StateDelivered}}
	assert.NoError(t, c.deletions.storeOf(t.Context(), key, []tracking.Ended{ended}))
	keys, err := store.Keys(t.Context(), "deletionchunk."+key)
	require.NoError(t, err)
	assert.Empty(t, keys, "nothing is made anew")

	w := &deletionWork{deletions: c.deletions, key: key, record: r}
	assert.ErrorIs(t, w.conclude(t.Context(), 0, func(int) (deletionEnd, bool) { return deletionEnd{}, false }), state.ErrNotFound)
}
