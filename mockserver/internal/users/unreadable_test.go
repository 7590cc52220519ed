package users_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// unreadable are invalid records.
var unreadable = []string{`{"users":["u`, `{}`, `[1]`, ``}

// overwrite stores a value under the first key with a prefix.
func overwrite(t *testing.T, store state.Store, prefix, value string) {
	t.Helper()
	keys, err := store.Keys(t.Context(), prefix)
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	require.NoError(t, store.Put(t.Context(), keys[0], []byte(value)))
}

func TestUnreadableRecordsAreLost(t *testing.T) {
	for _, value := range unreadable {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, box := oneSource(hooks("crm")...)
				config.State = state.NewMemory()
				c := start(t, config)
				request := users.DeletionRequest{ID: "gdpr", UserIDs: numbered(100)}
				deleted(t, c, request)
				synced(t, c, big("u1", "u2"))
				settle(t, c)
				box.take()
				overwrite(t, config.State, "deletion", value)
				overwrite(t, config.State, "computation", value)

				d, err := c.Users().WaitDeletion(t.Context(), "gdpr")
				require.NoError(t, err)
				assert.True(t, d.LostRecord)
				lost, err := c.Users().Lost(t.Context())
				require.NoError(t, err)
				assert.Equal(t, []users.LostList{
					{Kind: "deletion", Name: "gdpr", LostUsers: 100, LostRecord: true},
					{Kind: "audience", Name: "Big Spenders", Source: "web", Destination: "crm", LostRecord: true},
				}, lost)
				deleted(t, c, users.DeletionRequest{ID: "other", UserIDs: []string{"u3"}})
				settle(t, c)
				box.take()

				synced(t, c, big("u2", "u3"))
				assert.Equal(t, []string{"crm u2 big_spenders=true", "crm u3 big_spenders=true"}, box.received())
				deleted(t, c, request)
				settle(t, c)
				assert.Len(t, box.take(), 100)
				lost, err = c.Users().Lost(t.Context())
				require.NoError(t, err)
				assert.Empty(t, lost)
			})
		})
	}
}

func TestUnreadableChunkLosesOnlyItsUsers(t *testing.T) {
	for _, value := range append(unreadable, `{"users":["a","b"],"ends":[]}`) {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, box := oneSource(hooks("crm")...)
				config.State = state.NewMemory()
				gated := newGatedJournal()
				config.Journal = gated
				c := start(t, config)
				_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "gdpr", UserIDs: numbered(100)})
				require.NoError(t, err)
				require.NoError(t, c.Close())
				keys, err := config.State.Keys(t.Context(), "deletionchunk")
				require.NoError(t, err)
				for _, key := range keys {
					if strings.HasSuffix(key, ".1") {
						require.NoError(t, config.State.Put(t.Context(), key, []byte(value)))
					}
				}
				config.Journal = nil
				c = start(t, config)
				d, err := c.Users().WaitDeletion(within(t), "gdpr")
				require.NoError(t, err)
				settle(t, c)
				assert.Equal(t, 20, d.LostUsers)
				assert.Len(t, box.take(), 80)
			})
		})
	}
}
