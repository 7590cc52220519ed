package users_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// outcomes returns all outcomes of a request.
func outcomes(t *testing.T, c *engine.Collector, id string) []users.DeletionOutcome {
	t.Helper()
	all, more, err := c.Users().DeletionOutcomes(t.Context(), id, users.OutcomeFilter{}, 0, 1<<30)
	require.NoError(t, err)
	assert.False(t, more)
	return all
}

// lines formats outcomes as "user source destination state".
func lines(all []users.DeletionOutcome) []string {
	var lines []string
	for _, o := range all {
		lines = append(lines, fmt.Sprint(o.UserID, " ", o.Source, " ", o.Destination, " ", o.State))
	}
	return lines
}

// deleted makes a deletion request and waits until the request is completed.
func deleted(t *testing.T, c *engine.Collector, r users.DeletionRequest) users.Deletion {
	t.Helper()
	d, err := c.Users().DeleteUsers(t.Context(), r)
	require.NoError(t, err)
	d, err = c.Users().WaitDeletion(within(t), d.ID)
	require.NoError(t, err)
	return d
}

// twoSources returns a configuration with two sources and a destination for only one of them.
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
	c := start(t, config)

	d := deleted(t, c, users.DeletionRequest{ID: "gdpr-1", UserIDs: []string{"u2", "u1", "u2"}})
	assert.Equal(t, 2, d.Users)
	assert.Equal(t, []users.DeletionTarget{
		{Source: "ios", Destination: "crm", Counts: event.Counts{Delivered: 2}},
		{Source: "ios", Destination: "ios-only", Counts: event.Counts{Delivered: 2}},
		{Source: "web", Destination: "crm", Counts: event.Counts{Delivered: 2}},
	}, d.Targets)
	assert.False(t, d.CompletedAt.Before(d.RequestedAt))
	assert.Equal(t, []string{
		"u1 ios crm delivered", "u1 ios ios-only delivered", "u1 web crm delivered",
		"u2 ios crm delivered", "u2 ios ios-only delivered", "u2 web crm delivered",
	}, lines(outcomes(t, c, "gdpr-1")))

	filter := users.OutcomeFilter{UserIDs: []string{"u1", "u2"}, Sources: []string{"ios"}, Destinations: []string{"crm"}, States: []tracking.State{tracking.StateDelivered}}
	page, more, err := c.Users().DeletionOutcomes(t.Context(), "gdpr-1", filter, 0, 1)
	require.NoError(t, err)
	assert.True(t, more)
	assert.Equal(t, []string{"u1 ios crm delivered"}, lines(page))
	page, more, err = c.Users().DeletionOutcomes(t.Context(), "gdpr-1", filter, 1, 1)
	require.NoError(t, err)
	assert.False(t, more)
	assert.Equal(t, []string{"u2 ios crm delivered"}, lines(page))

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
	records := c.History().Records(nil)
	require.Len(t, records, 4)
	for _, r := range records {
		assert.LessOrEqual(t, len(r.Call.ID), 100)
		again, err := event.ReadCall(r.Call.Source, r.Call.Body)
		require.NoError(t, err)
		assert.Equal(t, r.Call, again)
	}
}

func TestDeletionRequestIsIdempotent(t *testing.T) {
	box := &inbox{}
	c := start(t, twoSources(box))
	ask := users.DeletionRequest{ID: "gdpr-1", UserIDs: []string{"u1", "u2"}, Source: "web"}
	first := deleted(t, c, ask)
	assert.Len(t, box.take(), 4)

	ask.UserIDs = []string{"u2", "u1", "u1"}
	again, err := c.Users().DeleteUsers(t.Context(), ask)
	require.NoError(t, err)
	assert.Equal(t, first, again)
	for _, other := range []users.DeletionRequest{
		{ID: "gdpr-1", UserIDs: []string{"u1"}, Source: "web"}, {ID: "gdpr-1", UserIDs: []string{"u1", "u2"}},
	} {
		_, err := c.Users().DeleteUsers(t.Context(), other)
		require.ErrorIs(t, err, state.ErrExists)
	}
	one := deleted(t, c, users.DeletionRequest{UserIDs: []string{"u1"}, Source: "web"})
	two := deleted(t, c, users.DeletionRequest{UserIDs: []string{"u1"}, Source: "web"})
	assert.NotEqual(t, one.ID, two.ID)
	assert.Len(t, box.take(), 4)
	all, err := c.Users().Deletions(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	assert.Equal(t, "gdpr-1", all[2].ID)

	_, err = c.Users().Deletion(t.Context(), "none")
	require.ErrorIs(t, err, state.ErrUnknown)
	_, _, err = c.Users().DeletionOutcomes(t.Context(), "none", users.OutcomeFilter{}, 0, 1)
	require.ErrorIs(t, err, state.ErrUnknown)
}

func TestDeletionOfManyUsers(t *testing.T) {
	many := 5_000
	if raceEnabled {
		many = 1_500
	}
	box := &inbox{}
	c := start(t, twoSources(box))
	ask := users.DeletionRequest{ID: "many", Source: "web", UserIDs: numbered(many)}
	for _, target := range deleted(t, c, ask).Targets {
		assert.Equal(t, many, target.Delivered, target)
	}
	seen := map[string]int{}
	for _, n := range box.take() {
		seen[n.host+" "+n.UserID]++
	}
	for _, id := range ask.UserIDs {
		require.Equal(t, [2]int{1, 1}, [2]int{seen["crm "+id], seen["ads "+id]}, id)
	}
	all := outcomes(t, c, "many")
	assert.Len(t, all, 2*many)
	assert.True(t, slices.IsSortedFunc(all, func(a, b users.DeletionOutcome) int { return strings.Compare(a.UserID, b.UserID) }), "by user")
}

func TestDeleteCallsFromSendersAreRejected(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	assert.Equal(t, http.StatusOK, send(c, "key", "/v1/batch", `{"batch":[{"type":"delete","userId":"u1"}]}`), "same response as the service")
	assert.Empty(t, c.History().Records(nil))
	rejections, _ := c.History().Rejections()
	assert.Equal(t, tracking.CodeUnknownType, rejections[0].Code)
	assert.Equal(t, http.StatusNotFound, send(c, "key", "/v1/delete", `{"userId":"u1"}`))
	assert.Empty(t, box.take())
}

func TestInvalidDeletionRequests(t *testing.T) {
	c := start(t, twoSources(&inbox{}))
	for name, test := range map[string]struct {
		request users.DeletionRequest
		want    string
	}{
		"no user":        {users.DeletionRequest{}, "userIds: is empty"},
		"empty user":     {users.DeletionRequest{UserIDs: []string{"u", ""}}, "userIds[1]: is empty"},
		"long user":      {users.DeletionRequest{UserIDs: []string{strings.Repeat("u", 1025)}}, "1025 bytes"},
		"many users":     {users.DeletionRequest{UserIDs: numbered(users.MaxDeletionUsers + 1)}, "at most 10000"},
		"long ID":        {users.DeletionRequest{ID: strings.Repeat("i", 256), UserIDs: []string{"u"}}, "256 bytes"},
		"unknown source": {users.DeletionRequest{UserIDs: []string{"u"}, Source: "tv"}, `"tv"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Users().DeleteUsers(within(t), test.request)
			require.ErrorContains(t, err, test.want)
		})
	}
	dev := start(t, engine.Config{AnyWriteKey: true})
	_, err := dev.Users().DeleteUsers(t.Context(), users.DeletionRequest{UserIDs: []string{"u"}})
	require.ErrorContains(t, err, "no source is known")
}

func TestDeletionWithoutDestinationsCompletes(t *testing.T) {
	c, _ := run(t)
	assert.Empty(t, deleted(t, c, users.DeletionRequest{UserIDs: []string{"u"}}).Targets)
	assert.Empty(t, c.History().Records(nil))
}

func TestDeletionUsesSourcesOfRetainedCalls(t *testing.T) {
	box := &inbox{}
	c := start(t, engine.Config{AnyWriteKey: true, Destinations: hooks("crm"), Sender: webhook.SenderConfig{Transport: box}})
	for _, key := range []string{"one", "two", "one"} {
		assert.Equal(t, http.StatusOK, send(c, key, "/v1/track", `{"event":"E","userId":"u"}`))
	}
	settle(t, c)
	box.take()
	assert.Len(t, deleted(t, c, users.DeletionRequest{UserIDs: []string{"u"}}).Targets, 2)
	assert.Len(t, box.take(), 2)
}

func TestDeletionReportsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &inbox{answer: func(host string) int {
			return map[string]int{"ads": http.StatusForbidden, "crm": http.StatusServiceUnavailable}[host]
		}}
		c := start(t, twoSources(box))
		_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}, Source: "web"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		all := outcomes(t, c, "x")
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
		assert.Equal(t, []users.DeletionTarget{{Source: "web", Destination: "crm", Counts: event.Counts{Pending: 1}}, {Source: "web", Destination: "ads", Counts: event.Counts{Failed: 1}}}, d.Targets)

		box.answers(nil)
		d, err = c.Users().WaitDeletion(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, []users.DeletionTarget{{Source: "web", Destination: "crm", Counts: event.Counts{Delivered: 1}}, {Source: "web", Destination: "ads", Counts: event.Counts{Failed: 1}}}, d.Targets)
		got := box.take()
		require.Len(t, got, 1)
		assert.Equal(t, all[0].MessageID, got[0].id)
	})
}

func TestDeletionIsRetainedForThirtyDays(t *testing.T) {
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
		running(func(c *engine.Collector) { deleted(t, c, users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}}) })
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

func TestDeletionWithRemovedDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := twoSources(&inbox{answer: func(string) int { return http.StatusServiceUnavailable }})
		config.Destinations = nil
		c := start(t, config)
		require.NoError(t, c.AddDestination(t.Context(), hooks("crm")[0]))
		_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}, Source: "web"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, c.RemoveDestination(t.Context(), "crm", true))
		d, err := c.Users().WaitDeletion(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, 1, d.Targets[0].Failed)
		assert.Contains(t, outcomes(t, c, "x")[0].Reason, "removed")
	})
}

// A failingState fails an update if fail returns an error.
type failingState struct {
	state.Store
	fail func(key string) bool
}

func (s failingState) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if s.fail(key) {
		return 0, errors.New("the disk is full")
	}
	return s.Store.Update(ctx, key, value, revision)
}

func TestDeletionRetriesStoringOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &inbox{}
		config := twoSources(box)
		var failing atomic.Bool
		failing.Store(true)
		config.State = failingState{state.NewMemory(), func(key string) bool {
			return failing.Load() && strings.HasPrefix(key, "deletionchunk.")
		}}
		c := start(t, config)
		_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}})
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

func TestLostFilteredDeletionIsNotReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		config.Destinations[0].Types.Deny = []string{"delete"}
		config.Journal = mortalJournal{journal.NewMemory(0), newProcess(-1, false)} // Close does nothing
		kept := state.NewMemory()
		config.State = failingState{kept, func(key string) bool { return strings.HasPrefix(key, "deletionchunk.") }}
		c := start(t, config)
		_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, c.Close())

		config.State = kept
		c = start(t, config)
		d, err := c.Users().WaitDeletion(within(t), "x")
		require.NoError(t, err)
		assert.Equal(t, event.Counts{Filtered: 1}, d.Targets[0].Counts)
		outcomes, _, err := c.Users().DeletionOutcomes(t.Context(), "x", users.OutcomeFilter{}, 0, 10)
		require.NoError(t, err)
		require.Len(t, outcomes, 1)
		assert.Equal(t, time.Now().UTC(), outcomes[0].At)
		assert.Empty(t, box.take())
		ledgers, err := c.Ledger(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []tracking.Ledger{{Destination: "crm", Accepted: 1, Filtered: 1}}, ledgers)
	})
}

// A stuckJournal stores the calls of a batch, but does not return until it is canceled.
type stuckJournal struct {
	journal.Journal
	stored []string // messageIds
}

func (j *stuckJournal) Append(ctx context.Context, b event.Batch) error {
	if err := j.Journal.Append(ctx, b); err != nil {
		return err
	}
	for _, c := range b.Calls {
		j.stored = append(j.stored, c.ID)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (j *stuckJournal) Close() error { return nil }

func (j *stuckJournal) seen(_ context.Context, _ time.Time, _ int, yield func(string, iter.Seq[string]) bool) error {
	yield("web", slices.Values(j.stored))
	return nil
}

func TestAnotherProcessContinuesADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		config.State, config.Instance = state.NewMemory(), "one"
		stuck := &stuckJournal{Journal: journal.NewMemory(0)}
		config.Journal = stuck
		c := start(t, config)
		require.NoError(t, c.Pause(t.Context(), "crm"))
		_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Close())

		config.Journal, config.Seen, config.Instance = stuck.Journal, stuck.seen, "two"
		c = start(t, config)
		require.NoError(t, c.Resume(t.Context(), "crm"))
		began := time.Now()
		_, err = c.Users().WaitDeletion(within(t), "x")
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 30*time.Second, "the lease was released")
		settle(t, c)
		assert.Len(t, box.take(), 1, "the call was sent once")
	})
}

func TestOutcomesOfADeletedRequestAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		var log strings.Builder
		config.State, config.Logger = state.NewMemory(), slog.New(slog.NewTextHandler(&log, nil))
		c := start(t, config)
		require.NoError(t, c.Pause(t.Context(), "crm"))
		_, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "x", UserIDs: []string{"u1"}})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, config.State.Delete(t.Context(), "deletionchunk"))
		require.NoError(t, c.Resume(t.Context(), "crm"))
		time.Sleep(10 * time.Second)
		assert.Len(t, box.take(), 1)
		keys, err := config.State.Keys(t.Context(), "deletionchunk")
		require.NoError(t, err)
		assert.Empty(t, keys, "no record is created")
		require.NoError(t, c.Close())
		assert.NotContains(t, log.String(), "outcomes of deletion requests could not be stored")
	})
}

// In this test, each update of a record fails once.
func TestStateErrorsCauseNoDuplicates(t *testing.T) {
	for failing, done := int64(1), false; !done; failing++ {
		synctest.Test(t, func(t *testing.T) {
			config, box := oneSource(hooks("crm")...)
			var updates atomic.Int64
			config.State = failingState{state.NewMemory(), func(key string) bool {
				if !strings.HasPrefix(key, "computation.") && !strings.HasPrefix(key, "deletion.") {
					return false
				}
				return updates.Add(1) == failing
			}}
			config.BatchCalls = 2
			c := start(t, config)
			if s, err := c.Users().StartSync(t.Context(), big("u1", "u2", "u3", "u4", "u5")); err == nil {
				_, err = c.Users().WaitSync(t.Context(), s.ID)
				require.NoError(t, err)
				settle(t, c)
				assert.Len(t, box.take(), 5)
			}
			if d, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{UserIDs: []string{"u6", "u7", "u8", "u9", "u10"}}); err == nil {
				_, err = c.Users().WaitDeletion(t.Context(), d.ID)
				require.NoError(t, err)
				settle(t, c)
				assert.Len(t, box.take(), 5)
			}
			done = updates.Load() < failing
		})
		require.Less(t, failing, int64(100))
	}
}

func TestDeletedUsersAreRemovedFromLists(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	synced(t, c, big("u1", "u2", "u3"))
	synced(t, c, audience("Others", "u3"))
	deleted(t, c, users.DeletionRequest{ID: "gdpr-1", UserIDs: []string{"u1", "u2", "u9"}})
	box.take()

	all, err := c.Users().Computations(within(t))
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Len(t, all[0].Syncs, 2)
	assert.Equal(t, "gdpr-1", all[0].Syncs[1].Deletion)
	_, err = c.Users().WaitSync(within(t), all[0].Syncs[1].ID)
	require.NoError(t, err)
	all, err = c.Users().Computations(within(t))
	require.NoError(t, err)
	assert.EqualValues(t, 1, all[0].Users)
	assert.EqualValues(t, 2, all[0].Syncs[1].Left)
	assert.Len(t, all[1].Syncs, 1, "the other list contains none of the users")

	synced(t, c, big("u2", "u3"))
	assert.Equal(t, []string{"crm u2 big_spenders=true"}, box.received(), "no notice for u1, a new one for u2")
}

// In this test, the process crashes before and after each of its writes.
func TestDeletionSurvivesACrashAtEveryWrite(t *testing.T) {
	userIDs := numbered(5)
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
				time.Sleep(10 * time.Second) // by then, the process makes no more progress
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
					{Source: "web", Destination: "crm", Counts: event.Counts{Delivered: 5}}, {Source: "web", Destination: "ads", Counts: event.Counts{Delivered: 5}},
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
				assert.Len(t, all[0].Syncs, 2, "removed from the list once")
			})
			require.Less(t, writes, 100)
		}
	}
}
