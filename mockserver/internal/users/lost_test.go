package users_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// A segmentState loses one segment of one list. Lists are numbered in the order in which they are
// stored.
type segmentState struct {
	state.Store
	list, segment int // if list is -1, no segment is lost

	mu      sync.Mutex // guards the fields below
	uploads []string
	reject  string // updates to values that contain it fail; optional
}

func (s *segmentState) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	s.mu.Lock()
	rejects := s.reject != "" && strings.Contains(string(value), s.reject)
	s.mu.Unlock()
	if rejects {
		return 0, errors.New("rejected")
	}
	return s.Store.Update(ctx, key, value, revision)
}

// loses makes the state lose the first segment of a list and accept all updates.
func (s *segmentState) loses(list int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.reject = list, ""
}

func (s *segmentState) Put(ctx context.Context, key string, value []byte) error {
	if upload, found := uploadOf(key); found {
		s.mu.Lock()
		if !slices.Contains(s.uploads, upload) {
			s.uploads = append(s.uploads, upload)
		}
		s.mu.Unlock()
	}
	return s.Store.Put(ctx, key, value)
}

func (s *segmentState) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	upload, found := uploadOf(key)
	s.mu.Lock()
	lost := found && slices.Index(s.uploads, upload) == s.list && strings.HasSuffix(key, fmt.Sprint(".", s.segment))
	s.mu.Unlock()
	if lost {
		return nil, 0, state.ErrNotFound
	}
	return s.Store.Get(ctx, key)
}

func (s *segmentState) Keys(ctx context.Context, prefix string) ([]string, error) {
	keys, err := s.Store.Keys(ctx, prefix)
	return slices.DeleteFunc(keys, func(key string) bool {
		_, _, err := s.Get(ctx, key)
		return err != nil
	}), err
}

// uploadOf returns the upload name in the key of a segment.
func uploadOf(key string) (string, bool) {
	parts := strings.Split(key, ".")
	if parts[0] != "segment" {
		return "", false
	}
	return parts[2], true
}

// longNames returns n user IDs. A segment contains about 140 of them.
func longNames(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("%04d-%s", i, strings.Repeat("x", 900)))
	}
	return ids
}

// every returns every nth ID, beginning at index from.
func every(ids []string, n, from int) (some []string) {
	for i := from; i < len(ids); i += n {
		some = append(some, ids[i])
	}
	return some
}

// minus returns the IDs that are in none of the others.
func minus(ids []string, others ...[]string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(slices.Concat(others...), id) })
}

// ranks returns "index=value" for each notice, where index is the number of the user.
func (b *inbox) ranks() (ranks []string) {
	for _, received := range b.received() {
		id, value, _ := strings.Cut(strings.TrimPrefix(received, "crm "), "-")
		_, value, _ = strings.Cut(value, "=")
		ranks = append(ranks, id+"="+value)
	}
	return ranks
}

// notices returns the expected ranks for users who entered and left.
func notices(entered, left []string) (ranks []string) {
	for _, id := range entered {
		ranks = append(ranks, id[:4]+"=true")
	}
	for _, id := range left {
		ranks = append(ranks, id[:4]+"=false")
	}
	slices.Sort(ranks)
	return ranks
}

// segmentsOf returns the users of each segment of a stored list.
func segmentsOf(t *testing.T, ids []string) (segments [][]string) {
	t.Helper()
	for len(ids) > 0 {
		n := min(len(ids), 145) // an entry takes 904 bytes including overhead, a segment up to 128 KiB
		size := 1
		for i, id := range ids {
			shared := 0
			for i > 0 && id[shared] == ids[i-1][shared] {
				shared++
			}
			size += 1 + 2 + len(id) - shared + 1
			if n = i + 1; size >= 128<<10 {
				break
			}
		}
		segments = append(segments, ids[:n])
		ids = ids[n:]
	}
	return segments
}

func TestLostSegmentLosesOnlyItsUsers(t *testing.T) {
	ids := longNames(400)
	first, second := minus(ids, every(ids, 10, 0)), minus(ids, every(ids, 7, 3))
	entered, left := minus(second, first), minus(first, second)
	require.Len(t, segmentsOf(t, first), 3)
	for segment := range 3 {
		t.Run(fmt.Sprint("older list, segment ", segment), func(t *testing.T) {
			lost := segmentsOf(t, first)[segment]
			s := lostSegment(t, 0, segment, first, second, notices(
				append(slices.Clone(entered), minus(lost, left)...), minus(left, lost)))
			assert.Equal(t, int64(len(lost)), s.LostUsers)
		})
		t.Run(fmt.Sprint("newer list, segment ", segment), func(t *testing.T) {
			lost := segmentsOf(t, second)[segment]
			// gap contains the users who sort into the lost segment. They may still be on the
			// second list.
			var gap []string
			for _, id := range left {
				before := slices.ContainsFunc(minus(second, lost), func(rest string) bool { return rest < id && lost[0] < rest })
				after := slices.ContainsFunc(minus(second, lost), func(rest string) bool { return rest > id && rest < lost[0] })
				if !before && !after {
					gap = append(gap, id)
				}
			}
			s := lostSegment(t, 1, segment, first, second, notices(minus(entered, lost), minus(left, gap)))
			assert.Equal(t, int64(len(lost)), s.LostUsers)
		})
	}
}

// lostSegment syncs two lists and loses a segment of one of them. It checks the notices, and that
// later lists and deletion requests work.
func lostSegment(t *testing.T, list, segment int, first, second, want []string) (s users.Sync) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &segmentState{Store: state.NewMemory(), list: -1}
		config, box := oneSource(hooks("crm")...)
		config.State = store
		c := start(t, config)
		synced(t, c, big(first...))
		require.Len(t, box.ranks(), len(first))
		store.mu.Lock()
		store.list, store.segment = list, segment
		store.mu.Unlock()
		if list == 0 {
			lost, err := c.Users().Lost(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []users.LostList{{Kind: "audience", Name: "Big Spenders", Source: "web", Destination: "crm",
				LostUsers: int64(len(segmentsOf(t, first)[segment]))}}, lost)
		}

		s = synced(t, c, big(second...))
		assert.Equal(t, want, box.ranks())
		received := map[string]bool{} // the destination's data: whether each user is a member
		for _, id := range first {
			received[id[:4]] = true
		}
		for _, notice := range want {
			received[notice[:4]] = strings.HasSuffix(notice, "true")
		}

		named, err := c.Users().Lost(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []users.LostList{{Kind: "audience", Name: "Big Spenders", Source: "web", Destination: "crm", LostUsers: s.LostUsers}}, named)

		members := second
		again := synced(t, c, big(members...))
		assert.Zero(t, again.LostUsers)
		named, err = c.Users().Lost(t.Context())
		require.NoError(t, err)
		assert.Empty(t, named, "the list was sent again")
		var entered []string
		for _, id := range members {
			if !received[id[:4]] {
				entered = append(entered, id)
			}
		}
		for _, notice := range box.ranks() {
			received[notice[:4]] = strings.HasSuffix(notice, "true")
		}
		for _, id := range members {
			assert.True(t, received[id[:4]], "%.4s is a member", id)
		}
		assert.Equal(t, int64(len(entered)), again.Entered, "only lost users are notified again")

		d := deleted(t, c, users.DeletionRequest{ID: "gdpr", UserIDs: members[:10]})
		assert.False(t, d.CompletedAt.IsZero())
		settle(t, c)
		box.take()
		assert.Equal(t, int64(10), synced(t, c, big(members...)).Entered, "they were removed from the list")
	})
	return s
}

// TestLostSegmentAfterNotices loses a segment of a list that is being sent. Its notices were created, or
// notices of the previous list are pending.
func TestLostSegmentAfterNotices(t *testing.T) {
	for name, test := range map[string]struct {
		reject            string   // ends the processing of the lost list
		before, lost, now []string // lists
		after             []string // notices
	}{
		"notices created":  {`"left":3,"sent":4`, []string{"ada", "bob", "cy", "dan"}, []string{"ada", "eve"}, []string{"ada", "cy", "dan"}, []string{"cy true", "dan true"}},
		"a notice pending": {`"entered":1,"left":2`, []string{"ada", "bob"}, []string{"cy"}, []string{"ada", "bob"}, nil},
		"notices pending":  {`"entered":1,"left":2`, []string{"ada", "bob"}, []string{"cy"}, []string{"bob"}, []string{"ada false"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &segmentState{Store: state.NewMemory(), list: -1}
				config, box := oneSource(hooks("crm")...)
				config.State = store
				c := start(t, config)
				members := map[string]string{} // the destination's data
				receive := func() (new []string) {
					for _, n := range box.take() {
						value := fmt.Sprint(n.Traits["big_spenders"])
						members[n.UserID] = value
						new = append(new, n.UserID+" "+value)
					}
					return new
				}
				box.answers(func(string) int { return http.StatusServiceUnavailable })
				s, err := c.Users().StartSync(t.Context(), big(test.before...))
				require.NoError(t, err)
				_, err = c.Users().WaitSync(t.Context(), s.ID)
				require.NoError(t, err)
				store.mu.Lock()
				store.reject = test.reject
				store.mu.Unlock()
				lost, err := c.Users().StartSync(t.Context(), big(test.lost...))
				require.NoError(t, err)
				box.answers(func(string) int { return 0 })
				time.Sleep(time.Minute)
				receive()
				store.loses(1)
				lost, err = c.Users().WaitSync(t.Context(), lost.ID)
				require.NoError(t, err)
				assert.Equal(t, int64(len(test.lost)), lost.LostUsers)
				settle(t, c)
				receive()

				synced(t, c, big(test.now...))
				assert.Equal(t, test.after, receive())
				for _, id := range test.now {
					assert.Equal(t, "true", members[id], id)
				}
			})
		})
	}
}

// loseRecord deletes the records with a key prefix, but not their parts.
func loseRecord(t *testing.T, store state.Store, prefix string) {
	t.Helper()
	keys, err := store.Keys(t.Context(), prefix)
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.NoError(t, store.Delete(t.Context(), key))
	}
}

func TestLostDeletionRecordIsListedAndCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		config.State = state.NewMemory()
		c := start(t, config)
		request := users.DeletionRequest{ID: "gdpr", UserIDs: numbered(100)}
		deleted(t, c, request)
		settle(t, c)
		box.take()
		loseRecord(t, config.State, "deletion")

		d, err := c.Users().WaitDeletion(t.Context(), "gdpr")
		require.NoError(t, err)
		assert.True(t, d.LostRecord)
		assert.Equal(t, 100, d.LostUsers)
		all, err := c.Users().Deletions(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []users.Deletion{d}, all)
		assert.Empty(t, outcomes(t, c, "gdpr"))
		lost, err := c.Users().Lost(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []users.LostList{{Kind: "deletion", Name: "gdpr", LostUsers: 100, LostRecord: true}}, lost)

		d = deleted(t, c, request)
		settle(t, c)
		assert.False(t, d.LostRecord)
		assert.Len(t, box.take(), 100)
		lost, err = c.Users().Lost(t.Context())
		require.NoError(t, err)
		assert.Empty(t, lost)
	})
}

func TestLostDeletionRecordExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource(hooks("crm")...)
		config.State = state.NewMemory()
		c := start(t, config)
		deleted(t, c, users.DeletionRequest{ID: "gdpr", UserIDs: numbered(10)})
		loseRecord(t, config.State, "deletion")
		time.Sleep(users.DeletionKept + 25*time.Hour)
		all, err := c.Users().Deletions(t.Context())
		require.NoError(t, err)
		assert.Empty(t, all)
	})
}

func TestLostAudienceRecordIsListedAndCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		config.State = state.NewMemory()
		c := start(t, config)
		synced(t, c, big("u1", "u2"))
		box.take()
		loseRecord(t, config.State, "computation")

		all, err := c.Users().Computations(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.True(t, all[0].LostRecord)
		assert.Equal(t, "Big Spenders", all[0].Name)
		lost, err := c.Users().Lost(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []users.LostList{{Kind: "audience", Name: "Big Spenders", Source: "web", Destination: "crm", LostRecord: true}}, lost)

		synced(t, c, big("u2", "u3"))
		assert.Equal(t, []string{"crm u2 big_spenders=true", "crm u3 big_spenders=true"}, box.received())
		lost, err = c.Users().Lost(t.Context())
		require.NoError(t, err)
		assert.Empty(t, lost)

		loseRecord(t, config.State, "computation")
		require.NoError(t, c.Users().DeleteComputation(t.Context(), all[0].ID))
		all, err = c.Users().Computations(t.Context())
		require.NoError(t, err)
		assert.Empty(t, all)
	})
}

// TestLostUpdateOfAnAudienceRecordIsReported restores the record to its state before a list was
// accepted.
func TestLostUpdateOfAnAudienceRecordIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		config.State = state.NewMemory()
		c := start(t, config)
		s := synced(t, c, big("u1", "u2"))
		key := "computation." + strings.Split(s.ID, "-")[0]
		before, _, err := config.State.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		gated := newGatedJournal()
		config.Journal = gated
		c = start(t, config)
		_, err = c.Users().StartSync(t.Context(), big("u2", "u3", "u4"))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, config.State.Put(t.Context(), key, before))

		config.Journal = nil
		c = start(t, config)
		lost := func() []users.LostList {
			lost, err := c.Users().Lost(t.Context())
			require.NoError(t, err)
			return lost
		}
		named := []users.LostList{{Kind: "audience", Name: "Big Spenders", Source: "web", Destination: "crm", LostUsers: 3}}
		assert.Equal(t, named, lost())
		deleted(t, c, users.DeletionRequest{ID: "gdpr", UserIDs: []string{"u1"}})
		settle(t, c)
		box.take()
		assert.Equal(t, named, lost(), "a deletion request does not replace the list")
		synced(t, c, big("u2", "u3", "u4"))
		assert.Equal(t, []string{"crm u3 big_spenders=true", "crm u4 big_spenders=true"}, box.received())
		assert.Empty(t, lost())
	})
}
