package users_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// If a source hashes user IDs, lists and deletion requests name users by their original IDs, and
// receivers get the hashes.
func TestListsOfASourceThatHashesUserIDs(t *testing.T) {
	config, box := oneSource(hooks("crm")...)
	config.RedactKey = []byte("key")
	config.Sources[0].Redact = tracking.Redaction{Hash: []string{"userId"}}
	c := start(t, config)

	notices := func(users map[string]string) (want []string) {
		for user, value := range users {
			h := hmac.New(sha256.New, []byte("key"))
			h.Write([]byte(user))
			want = append(want, "crm "+hex.EncodeToString(h.Sum(nil))+" big_spenders="+value)
		}
		slices.Sort(want)
		return want
	}
	synced(t, c, big("u1", "u2", "u3"))
	assert.Equal(t, notices(map[string]string{"u1": "true", "u2": "true", "u3": "true"}), box.received())
	synced(t, c, big("u3", "u2"))
	assert.Equal(t, notices(map[string]string{"u1": "false"}), box.received())

	deleted(t, c, users.DeletionRequest{ID: "gdpr", UserIDs: []string{"u2", "u9"}})
	got := box.take()
	require.Len(t, got, 2)
	for _, n := range got {
		assert.Equal(t, "delete", n.Type)
		assert.Len(t, n.UserID, 64)
	}
	all, err := c.Users().Computations(within(t))
	require.NoError(t, err)
	removal := all[0].Syncs[len(all[0].Syncs)-1]
	require.Equal(t, "gdpr", removal.Deletion)
	removal, err = c.Users().WaitSync(within(t), removal.ID)
	require.NoError(t, err)
	assert.EqualValues(t, 1, removal.Left, "u2 left the stored list, too")
}
