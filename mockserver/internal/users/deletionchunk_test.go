package users_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// A lossyState returns state.ErrNotFound for lost keys.
type lossyState struct {
	state.Store
	lost func(key string) bool
}

func (s lossyState) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if s.lost(key) {
		return nil, 0, state.ErrNotFound
	}
	return s.Store.Get(ctx, key)
}

func TestLostDeletionChunkLosesOnlyItsUsers(t *testing.T) {
	ids := numbered(200) // stored as chunks of 80, 80 and 40 users
	for chunk, lost := range [][]string{ids[:80], ids[80:160], ids[160:]} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, box := oneSource(hooks("crm")...)
				suffix := fmt.Sprint(".", chunk)
				config.State = lossyState{state.NewMemory(), func(key string) bool {
					return strings.HasPrefix(key, "deletionchunk.") && strings.HasSuffix(key, suffix)
				}}
				c := start(t, config)
				request := users.DeletionRequest{ID: "gdpr", UserIDs: ids}
				d := deleted(t, c, request)
				settle(t, c)

				assert.Equal(t, len(lost), d.LostUsers)
				assert.Equal(t, []users.DeletionTarget{{Source: "web", Destination: "crm", Counts: event.Counts{Delivered: len(ids) - len(lost)}}}, d.Targets)
				var got []string
				for _, n := range box.take() {
					got = append(got, n.UserID)
				}
				assert.Equal(t, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(lost, id) }), got)

				all, err := c.Users().Deletions(t.Context())
				require.NoError(t, err)
				assert.Equal(t, []users.Deletion{d}, all)
				again, err := c.Users().DeleteUsers(t.Context(), request)
				require.NoError(t, err)
				assert.Equal(t, d, again)
				assert.Len(t, outcomes(t, c, "gdpr"), len(ids)-len(lost))
			})
		})
	}
}
