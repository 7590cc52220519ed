package mockserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// outcomes are those of a request, as "user source destination state".
func outcomes(t *testing.T, c *engine.Collector, id string) []string {
	t.Helper()
	var all []string
	for o, err := range c.Users().DeletionOutcomes(t.Context(), id) {
		require.NoError(t, err)
		all = append(all, fmt.Sprint(o.UserID, " ", o.Source, " ", o.Destination, " ", o.State))
	}
	return all
}

// twoSources is a configuration of two sources, of which one has a destination of
// its own.
func twoSources(box *inbox) engine.Config {
	destinations := hooks("crm", "ads", "ios-only")
	destinations[2].Sources = []string{"ios"}
	return engine.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "w"}, {Name: "ios", WriteKey: "i"}},
		Destinations: destinations,
		Sender:       webhook.SenderConfig{Transport: box},
	}
}

func TestDeletionNotifiesEveryDestinationOfEverySource(t *testing.T) {
	box := &inbox{}
	config := twoSources(box)
	config.Destinations[0].SharedSecret = "s3cret"
	config.Destinations[1].Disabled = true
	srv := mockserver.RunEngine(t, config)

	d, err := srv.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{ID: "gdpr-1", UserIDs: []string{"u2", "u1", "u2"}})
	require.NoError(t, err)
	assert.Equal(t, 2, d.Users)
	d, err = srv.Engine().Users().WaitDeletion(within(t), "gdpr-1")
	require.NoError(t, err)
	assert.Equal(t, []users.DeletionTarget{
		{Source: "ios", Destination: "crm", Delivered: 2},
		{Source: "ios", Destination: "ios-only", Delivered: 2},
		{Source: "web", Destination: "crm", Delivered: 2},
	}, d.Targets)
	assert.False(t, d.CompletedAt.Before(d.RequestedAt))
	assert.Equal(t, []string{
		"u1 ios crm delivered", "u1 ios ios-only delivered", "u1 web crm delivered",
		"u2 ios crm delivered", "u2 ios ios-only delivered", "u2 web crm delivered",
	}, outcomes(t, srv.Engine(), "gdpr-1"))

	got := box.take()
	require.Len(t, got, 6)
	ids := map[string]bool{}
	for _, n := range got {
		assert.Equal(t, fmt.Sprintf(`{"type":"delete","userId":%q,"timestamp":%q}`, n.UserID, d.RequestedAt.Format("2006-01-02T15:04:05.000Z")), n.body)
		ids[n.id] = true
		if n.host == "crm" {
			assert.NoError(t, webhook.Verify("s3cret", []byte(n.body), n.signature))
		}
	}
	assert.Len(t, ids, 4, "one for each user and source")
	for _, call := range srv.Calls(mockserver.OfType("delete")) {
		assert.LessOrEqual(t, len(call.ID), 100)
		again, err := fields.ReadCall(call.Source, call.Body)
		require.NoError(t, err)
		assert.Equal(t, call, again)
	}
}

func TestDeletionIsTakenOnce(t *testing.T) {
	box := &inbox{}
	srv := mockserver.RunEngine(t, twoSources(box))
	ask := users.DeletionRequest{ID: "gdpr-1", UserIDs: []string{"u1", "u2"}, Source: "web"}
	first, err := srv.Engine().Users().DeleteUsers(within(t), ask)
	require.NoError(t, err)
	_, err = srv.Engine().Users().WaitDeletion(within(t), ask.ID)
	require.NoError(t, err)
	assert.Len(t, box.take(), 4)

	ask.UserIDs = []string{"u2", "u1", "u1"}
	again, err := srv.Engine().Users().DeleteUsers(within(t), ask)
	require.NoError(t, err)
	assert.Equal(t, first.RequestedAt, again.RequestedAt)
	assert.False(t, again.CompletedAt.IsZero())
	for _, other := range []users.DeletionRequest{
		{ID: "gdpr-1", UserIDs: []string{"u1"}, Source: "web"}, {ID: "gdpr-1", UserIDs: []string{"u1", "u2"}},
	} {
		_, err = srv.Engine().Users().DeleteUsers(within(t), other)
		require.ErrorIs(t, err, state.ErrExists)
	}
	one, err := srv.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{UserIDs: []string{"u1"}, Source: "web"})
	require.NoError(t, err)
	two, err := srv.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{UserIDs: []string{"u1"}, Source: "web"})
	require.NoError(t, err)
	assert.NotEqual(t, one.ID, two.ID)
	for _, id := range []string{one.ID, two.ID} {
		_, err := srv.Engine().Users().WaitDeletion(within(t), id)
		require.NoError(t, err)
	}
	assert.Len(t, box.take(), 4)
	all, err := srv.Engine().Users().Deletions(within(t))
	require.NoError(t, err)
	require.Len(t, all, 3)
	assert.Equal(t, "gdpr-1", all[2].ID)

	_, err = srv.Engine().Users().Deletion(within(t), "none")
	require.ErrorIs(t, err, state.ErrUnknown)
	for _, err := range srv.Engine().Users().DeletionOutcomes(within(t), "none") {
		require.ErrorIs(t, err, state.ErrUnknown)
	}
}

func TestDeletionOfManyUsers(t *testing.T) {
	box := &inbox{}
	srv := mockserver.RunEngine(t, twoSources(box))
	ask := users.DeletionRequest{ID: "many", Source: "web"}
	for id := range numbered(5000) {
		ask.UserIDs = append(ask.UserIDs, id)
	}
	_, err := srv.Engine().Users().DeleteUsers(within(t), ask)
	require.NoError(t, err)
	d, err := srv.Engine().Users().WaitDeletion(within(t), "many")
	require.NoError(t, err)
	for _, target := range d.Targets {
		assert.Equal(t, 5000, target.Delivered, target)
	}
	seen := map[string]int{}
	for _, n := range box.take() {
		seen[n.host+" "+n.UserID]++
	}
	for _, id := range ask.UserIDs {
		require.Equal(t, [2]int{1, 1}, [2]int{seen["crm "+id], seen["ads "+id]}, id)
	}
	all := outcomes(t, srv.Engine(), "many")
	assert.Len(t, all, 2*5000)
	assert.True(t, slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(a[:13], b[:13]) }), "by user")

	ask = users.DeletionRequest{}
	for id := range numbered(users.MaxDeletionUsers + 1) {
		ask.UserIDs = append(ask.UserIDs, id)
	}
	_, err = srv.Engine().Users().DeleteUsers(within(t), ask)
	require.ErrorContains(t, err, "at most 10000")
}

func TestDeletionIsNotTakenFromSenders(t *testing.T) {
	srv, box := run(t, hooks("crm")...)
	_, answer := post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"type":"delete","userId":"u1"}]}`)
	assert.Equal(t, true, answer["success"], "the batch is answered as the service does")
	assert.Empty(t, srv.Calls())
	assert.Equal(t, tracking.CodeUnknownType, srv.Engine().History().Rejections()[0].Code)
	status, _ := post(t, srv.URL+"/v1/delete", "key", `{"userId":"u1"}`)
	assert.Equal(t, http.StatusNotFound, status)
	assert.Empty(t, box.take())
}

func TestDeletionRequestsThatAreRefused(t *testing.T) {
	srv := mockserver.RunEngine(t, twoSources(&inbox{}))
	for name, test := range map[string]struct {
		request users.DeletionRequest
		want    string
	}{
		"no user":        {users.DeletionRequest{}, "userIds: is empty"},
		"empty user":     {users.DeletionRequest{UserIDs: []string{"u", ""}}, "userIds[1]: is empty"},
		"long user":      {users.DeletionRequest{UserIDs: []string{strings.Repeat("u", 1025)}}, "1025 bytes"},
		"long ID":        {users.DeletionRequest{ID: strings.Repeat("i", 256), UserIDs: []string{"u"}}, "256 bytes"},
		"unknown source": {users.DeletionRequest{UserIDs: []string{"u"}, Source: "tv"}, `"tv"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := srv.Engine().Users().DeleteUsers(within(t), test.request)
			require.ErrorContains(t, err, test.want)
		})
	}
	dev := mockserver.RunT(t)
	_, err := dev.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{UserIDs: []string{"u"}})
	require.ErrorContains(t, err, "no source is known")
}

func TestDeletionWithoutDestinationsIsDone(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "key"}}})
	d, err := srv.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{UserIDs: []string{"u"}})
	require.NoError(t, err)
	d, err = srv.Engine().Users().WaitDeletion(within(t), d.ID)
	require.NoError(t, err)
	assert.Empty(t, d.Targets)
	assert.Empty(t, srv.Calls())
}

func TestDeletionFindsTheSourcesThatWereSeen(t *testing.T) {
	box := &inbox{}
	srv := mockserver.RunT(t, mockserver.Config{Destinations: hooks("crm"), Sender: webhook.SenderConfig{Transport: box}})
	for _, key := range []string{"one", "two", "one"} {
		post(t, srv.URL+"/v1/track", key, `{"event":"E","userId":"u"}`)
	}
	_, err := srv.Wait(within(t), 3, mockserver.DeliveredTo("crm"))
	require.NoError(t, err)
	box.take()
	d, err := srv.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{UserIDs: []string{"u"}})
	require.NoError(t, err)
	d, err = srv.Engine().Users().WaitDeletion(within(t), d.ID)
	require.NoError(t, err)
	assert.Len(t, d.Targets, 2)
	assert.Len(t, box.take(), 2)
}

func TestDeletionTellsHowNotificationsFare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		box := &inbox{}
		box.answer = func(_ int, n notice) int {
			switch {
			case n.host == "ads":
				return http.StatusForbidden
			case n.host == "crm" && down:
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		c, err := engine.New(twoSources(box))
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}, Source: "web"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		var all []users.DeletionOutcome
		for o, err := range c.Users().DeletionOutcomes(t.Context(), "x") {
			require.NoError(t, err)
			all = append(all, o)
		}
		require.Len(t, all, 2)
		assert.Equal(t, tracking.StatePending, all[0].State)
		assert.Greater(t, all[0].Attempt, 2)
		assert.Contains(t, all[0].Reason, "503")
		assert.Equal(t, tracking.StateFailed, all[1].State)
		assert.Contains(t, all[1].Reason, "403")
		assert.Equal(t, all[0].MessageID, all[1].MessageID)

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, err := c.Users().WaitDeletion(short, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []users.DeletionTarget{{Source: "web", Destination: "crm", Pending: 1}, {Source: "web", Destination: "ads", Failed: 1}}, d.Targets)

		box.mu.Lock()
		down = false
		box.mu.Unlock()
		d, err = c.Users().WaitDeletion(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, []users.DeletionTarget{{Source: "web", Destination: "crm", Delivered: 1}, {Source: "web", Destination: "ads", Failed: 1}}, d.Targets)
		got := box.take()
		require.Len(t, got, 1)
		assert.Equal(t, all[0].MessageID, got[0].id)
	})
}

func TestDeletionIsKeptForThirtyDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := twoSources(&inbox{})
		config.State = state.NewMemory()
		running := func(do func(c *engine.Collector)) {
			c, err := engine.New(config)
			require.NoError(t, err)
			defer c.Close()
			synctest.Wait()
			do(c)
		}
		running(func(c *engine.Collector) {
			_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}})
			require.NoError(t, err)
			_, err = c.Users().WaitDeletion(t.Context(), "x")
			require.NoError(t, err)
		})
		time.Sleep(users.DeletionKept - time.Hour)
		running(func(c *engine.Collector) {
			_, err := c.Users().Deletion(t.Context(), "x")
			require.NoError(t, err)
		})
		time.Sleep(2 * time.Hour)
		running(func(c *engine.Collector) {
			_, err := c.Users().Deletion(t.Context(), "x")
			require.ErrorIs(t, err, state.ErrUnknown)
			keys, err := config.State.Keys(t.Context(), "deletionchunk")
			require.NoError(t, err)
			require.Empty(t, keys)
		})
	})
}

func TestDeletionToADestinationThatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &inbox{answer: func(int, notice) int { return http.StatusServiceUnavailable }}
		config := twoSources(box)
		config.Destinations = nil
		c, err := engine.New(config)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.AddDestination(t.Context(), hooks("crm")[0]))
		_, err = c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}, Source: "web"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, c.RemoveDestination(t.Context(), "crm"))
		d, err := c.Users().WaitDeletion(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, 1, d.Targets[0].Failed)
		for o := range c.Users().DeletionOutcomes(t.Context(), "x") {
			assert.Contains(t, o.Reason, "removed")
		}
	})
}

// A failingState takes no changes of chunks while it is told to.
type failingState struct {
	state.Store
	failing *atomic.Bool
}

func (s failingState) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if s.failing.Load() && strings.HasPrefix(key, "deletionchunk.") {
		return 0, errors.New("the disk is full")
	}
	return s.Store.Update(ctx, key, value, revision)
}

func TestDeletionKeepsOutcomesUntilTheyAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &inbox{}
		config := twoSources(box)
		var failing atomic.Bool
		failing.Store(true)
		config.State = failingState{state.NewMemory(), &failing}
		c, err := engine.New(config)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}})
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		d, err := c.Users().Deletion(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, 1, d.Targets[0].Pending)
		failing.Store(false)
		d, err = c.Users().WaitDeletion(t.Context(), "x")
		require.NoError(t, err)
		assert.Less(t, d.CompletedAt.Sub(d.RequestedAt), time.Minute)
		assert.Len(t, box.take(), 5, "each was sent once")
	})
}

func TestDeletedUsersAreTakenOutOfLists(t *testing.T) {
	srv, box := run(t, hooks("crm")...)
	synced(t, srv, big("u1", "u2", "u3"))
	other := big("u3")
	other.Name = "Others"
	synced(t, srv, other)
	box.take()
	d, err := srv.Engine().Users().DeleteUsers(within(t), users.DeletionRequest{ID: "gdpr-1", UserIDs: []string{"u1", "u2", "u9"}})
	require.NoError(t, err)
	_, err = srv.Engine().Users().WaitDeletion(within(t), d.ID)
	require.NoError(t, err)
	box.take()

	all, err := srv.Engine().Users().Computations(within(t))
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Len(t, all[0].Syncs, 2)
	assert.Equal(t, "gdpr-1", all[0].Syncs[1].Deletion)
	_, err = srv.Engine().Users().WaitSync(within(t), all[0].Syncs[1].ID)
	require.NoError(t, err)
	all, err = srv.Engine().Users().Computations(within(t))
	require.NoError(t, err)
	assert.EqualValues(t, 1, all[0].Users)
	assert.EqualValues(t, 2, all[0].Syncs[1].Left)
	assert.Len(t, all[1].Syncs, 1, "none of them is in the other list")

	synced(t, srv, big("u2", "u3"))
	assert.Equal(t, []string{"crm u2 big_spenders=true"}, box.told(), "u1 is not heard of again, u2 is a new member")
}

// Every write of a deletion request is once the last one that a process makes,
// and once the first one that it does not make.
func TestDeletionSurvivesAKillAtEveryWrite(t *testing.T) {
	var userIDs []string
	for id := range numbered(5) {
		userIDs = append(userIDs, id)
	}
	for _, after := range []bool{false, true} {
		for writes, done := 0, false; !done; writes++ {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer func() { w.die() }()
				w.sync(w.properties["crm big_spenders"], map[string]string{userIDs[0]: "true", "other": "true"}, false)
				w.settle()
				w.die()
				w.live(writes, after)
				ask := users.DeletionRequest{ID: "gdpr-1", UserIDs: userIDs}
				_, err := w.collector.Users().DeleteUsers(t.Context(), ask)
				require.True(t, err == nil || w.process.isDead(), "%v", err)
				time.Sleep(10 * time.Second) // it is as far as it comes
				synctest.Wait()
				done = !w.process.isDead()
				w.die()
				w.live(-1, false)
				_, err = w.collector.Users().DeleteUsers(t.Context(), ask)
				require.NoError(t, err, "the repeat")
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
				defer cancel()
				d, err := w.collector.Users().WaitDeletion(ctx, ask.ID)
				require.NoError(t, err)
				assert.Equal(t, []users.DeletionTarget{
					{Source: "web", Destination: "crm", Delivered: 5}, {Source: "web", Destination: "ads", Delivered: 5},
				}, d.Targets)
				ids := map[string]string{}
				for _, n := range w.box.take() {
					if n.Type != "delete" {
						continue
					}
					if before := ids[n.host+n.UserID]; before != "" {
						require.Equal(t, before, n.id, "a repeat has the same ID")
					}
					ids[n.host+n.UserID] = n.id
				}
				assert.Len(t, ids, 10)
				all, err := w.collector.Users().Computations(t.Context())
				require.NoError(t, err)
				for _, c := range all {
					_, err := w.collector.Users().WaitSync(t.Context(), c.Syncs[len(c.Syncs)-1].ID)
					require.NoError(t, err)
				}
				all, err = w.collector.Users().Computations(t.Context())
				require.NoError(t, err)
				assert.EqualValues(t, 1, all[0].Users)
				assert.Len(t, all[0].Syncs, 2, "taken out of the list once")
			})
			require.Less(t, writes, 100)
		}
	}
}
