package users_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A picture maps users to their trait at a receiver that uses the last request.
type picture map[string]string

// take applies the received requests in order.
func (p picture) take(box *inbox) {
	box.mu.Lock()
	defer box.mu.Unlock()
	for _, n := range box.got {
		for _, value := range n.Traits {
			if v := fmt.Sprint(value); v == "false" || v == "<nil>" {
				delete(p, n.UserID)
			} else {
				p[n.UserID] = v
			}
		}
	}
	box.got = nil
}

// randomly returns a random list and the picture that it causes.
func randomly(r *rand.Rand, kind users.ComputationKind, n int) (users.SyncRequest, picture) {
	want, lines := picture{}, []string{}
	for _, user := range numbered(n) {
		switch {
		case r.IntN(2) == 0:
		case kind == users.KindTrait:
			want[user] = fmt.Sprint(r.IntN(3))
			lines = append(lines, fmt.Sprintf(`{"userId":%q,"value":%s}`, user, want[user]))
		default:
			want[user] = "true"
			lines = append(lines, user)
		}
	}
	return users.SyncRequest{Kind: kind, Name: "Big Spenders", List: strings.NewReader(strings.Join(lines, "\n"))}, want
}

// refusing returns an answer function that responds with a status with probability 1/2.
func refusing(r *rand.Rand, status int) func(string) int {
	return func(string) int { return status * r.IntN(2) }
}

func replayFailed(t *testing.T, c *engine.Collector) int {
	t.Helper()
	n, err := c.Replay(within(t), "crm", engine.Selection{State: tracking.StateFailed})
	require.NoError(t, err)
	settle(t, c)
	return n
}

func TestReplayKeepsTheCurrentList(t *testing.T) {
	for _, kind := range []users.ComputationKind{users.KindAudience, users.KindTrait} {
		for _, status := range []int{400, 503} { // a permanent and a temporary failure
			t.Run(fmt.Sprint(kind, " ", status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, box := run(t, hooks("crm")...)
					r, got := rand.New(rand.NewPCG(1, 2)), picture{}
					const n = 400
					list, _ := randomly(r, kind, n)
					synced(t, c, list)
					got.take(box)
					box.answers(refusing(r, status))
					list, _ = randomly(r, kind, n)
					_, err := c.Users().StartSync(t.Context(), list)
					require.NoError(t, err)
					time.Sleep(time.Second)
					synctest.Wait()
					got.take(box)
					box.answers(nil)
					list, want := randomly(r, kind, n)
					synced(t, c, list)
					if status == 400 {
						require.Positive(t, replayFailed(t, c))
					}
					got.take(box)

					wrong := 0
					for _, user := range numbered(n) {
						if got[user] != want[user] {
							wrong++
						}
					}
					assert.Zero(t, wrong, "of %d users", n)
				})
			})
		}
	}
}

func TestOnlyContradictedNoticesAreSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, box := run(t, hooks("crm")...)
		box.answers(func(string) int { return 400 })
		synced(t, c, big("stays", "leaves", "deleted"))
		box.answers(nil)
		synced(t, c, big("stays", "enters", "deleted"))
		d, err := c.Users().DeleteUsers(t.Context(), users.DeletionRequest{UserIDs: []string{"deleted"}})
		require.NoError(t, err)
		_, err = c.Users().WaitDeletion(t.Context(), d.ID)
		require.NoError(t, err)
		box.take()

		require.Equal(t, 3, replayFailed(t, c))
		assert.Equal(t, []string{"crm stays big_spenders=true"}, box.received())
		require.Zero(t, replayFailed(t, c), "superseded calls are not listed as failed")
		synctest.Wait() // until the history has observed the results
		filtered := map[string]string{}
		for _, r := range c.History().Records(nil) {
			for _, s := range r.Ends {
				if s.State == tracking.StateFiltered {
					filtered[r.Call.UserID] = s.Reason
				}
			}
		}
		const reason = "superseded: a newer list contradicts this call"
		assert.Equal(t, map[string]string{"leaves": reason, "deleted": reason}, filtered)
	})
}

// TestListBeingSentSupersedes checks that after a new list has created a call for a user, the user's
// pending call of the previous list is not sent, even if the rest of the new list still waits.
func TestListBeingSentSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, box := oneSource(hooks("crm")...)
		config.BatchCalls = 1
		c := start(t, config)
		box.answers(func(string) int { return 503 })
		s, err := c.Users().StartSync(t.Context(), big("ada"))
		require.NoError(t, err)
		_, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		first := c.History().Records(nil)[0].Call
		s, err = c.Users().StartSync(t.Context(), big(numbered(100)...)) // more calls than may be pending
		require.NoError(t, err)
		time.Sleep(time.Second)
		s, err = c.Users().Sync(t.Context(), s.ID)
		require.NoError(t, err)
		require.Equal(t, users.SyncRunning, s.State)
		require.Positive(t, s.Sent)
		assert.NotEmpty(t, c.Users().Superseded(t.Context(), &first))
		box.answers(nil)
		_, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		settle(t, c)
		var ada []string
		for _, n := range box.received() {
			if strings.HasPrefix(n, "crm ada") {
				ada = append(ada, n)
			}
		}
		assert.Equal(t, []string{"crm ada big_spenders=false"}, ada)
	})
}

func TestReplayAfterForgetKeepsTheNewList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, box := run(t, hooks("crm")...)
		box.answers(func(string) int { return 400 })
		synced(t, c, big("stays", "leaves"))
		computations, err := c.Users().Computations(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Users().DeleteComputation(t.Context(), computations[0].ID))
		box.answers(nil)
		time.Sleep(time.Millisecond) // gives the next list a later timestamp
		synced(t, c, big("stays", "enters"))
		box.take()

		require.Equal(t, 2, replayFailed(t, c))
		assert.Equal(t, []string{"crm stays big_spenders=true"}, box.received())
	})
}

func TestForgedNoticesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, box := run(t, hooks("crm")...)
		s := synced(t, c, big("u1"))
		synced(t, c, big("u2"))
		box.take()
		time.Sleep(time.Second) // later than the timestamps of both lists
		forged := fmt.Sprintf(`{"type":"identify","userId":"u1","traits":{"big_spenders":true},"messageId":"audience-%s-%s"}`, s.ID, strings.Repeat("a", 16))
		require.Equal(t, 200, send(c, "key", "/v1/identify", forged))
		settle(t, c)
		assert.Equal(t, []string{"crm u1 big_spenders=true"}, box.received())
	})
}

// A movingState calls a function from the context before it reads a segment.
type movingState struct{ state.Store }

// beforeRead is the context key of the function.
type beforeRead struct{}

func (s movingState) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if call, ok := ctx.Value(beforeRead{}).(func()); ok && strings.HasPrefix(key, "segment.") {
		call()
	}
	return s.Store.Get(ctx, key)
}

func TestSupersededRetriesAReplacedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource(hooks("crm")...)
		config.State = movingState{state.NewMemory()}
		c := start(t, config)
		synced(t, c, big("u1"))
		first := c.History().Records(nil)[0].Call
		synced(t, c, big("u1", "u2"))
		assert.Empty(t, c.Users().Superseded(t.Context(), &first))
		replace := sync.OnceFunc(func() {
			synced(t, c, big("u2"))
			synctest.Wait() // until the replaced list is removed
		})
		ctx := context.WithValue(t.Context(), beforeRead{}, replace)
		assert.NotEmpty(t, c.Users().Superseded(ctx, &first))

		keys, err := config.State.Keys(t.Context(), "segment")
		require.NoError(t, err)
		for _, key := range keys {
			require.NoError(t, config.State.Delete(t.Context(), key))
		}
		assert.Empty(t, c.Users().Superseded(t.Context(), &first), "an unreadable list does not supersede calls")
	})
}

func BenchmarkSuperseded(b *testing.B) {
	config, _ := oneSource(hooks("crm")...)
	c, err := engine.New(config)
	require.NoError(b, err)
	defer c.Close()
	for i := range 25 {
		s, err := c.Users().StartSync(b.Context(), big("u1", fmt.Sprint(i)))
		require.NoError(b, err)
		_, err = c.Users().WaitSync(b.Context(), s.ID)
		require.NoError(b, err)
	}
	records := c.History().Records(nil)
	last := records[len(records)-1].Call
	for b.Loop() {
		if c.Users().Superseded(b.Context(), &last) != "" {
			b.Fatal("the newest notice is superseded")
		}
	}
}
