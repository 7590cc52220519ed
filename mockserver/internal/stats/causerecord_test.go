package stats_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// startCauses returns a Causes that has been restored from a store.
func startCauses(store state.Store, isCurrent func(string, time.Time) bool) *stats.Causes {
	c := stats.NewCauses()
	c.Start(store, quiet(), isCurrent)
	synctest.Wait()
	return c
}

func anyName(string, time.Time) bool { return true }

func refusal(from tracking.Sender) event.Refusal {
	return event.Refusal{Source: "web", Code: "invalid_json", Message: "no JSON at Ada", Status: 400, At: time.Now(), Sender: from}
}

func TestGroupsSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		c := startCauses(store, anyName)
		for n := range 7 {
			c.Observe(failedAttempt(n, fmt.Sprint("order ", n, " unknown")))
			c.Observe(failedCall(n, fmt.Sprint("order ", n, " unknown")))
			time.Sleep(10 * time.Minute)
		}
		c.Observe(refusal(tracking.Sender{Address: "192.0.2.7", UserAgent: "curl/8"}))
		c.Observe(refusal(tracking.Sender{Address: "192.0.2.8", UserAgent: "curl/8"}))
		before := c.Report()
		c.Stop()

		c = startCauses(store, anyName)
		after := c.Report()
		assert.True(t, after.Since.Equal(before.Since), "counted since %v, want %v", after.Since, before.Since)
		require.Len(t, after.Failed, 1)
		failed, want := after.Failed[0], before.Failed[0]
		assert.Equal(t, "responded with 400 (Bad Request): order 6 unknown", want.Sample.Message)
		assert.Equal(t, stats.Sample{Message: "responded with 400 (Bad Request): order … unknown", Status: 400}, failed.Sample, "the message is not stored")
		assert.Equal(t, []any{want.ID, want.Attempts, want.Calls, want.OtherSenders, want.First.UTC(), want.Last.UTC()},
			[]any{failed.ID, failed.Attempts, failed.Calls, failed.OtherSenders, failed.First.UTC(), failed.Last.UTC()})
		assert.Equal(t, ids(want.Newest), ids(failed.Newest))
		require.Len(t, after.Refused, 1)
		require.Len(t, after.Refused[0].Senders, 1, "without addresses they are merged")
		assert.Equal(t, tracking.Sender{UserAgent: "curl/8"}, after.Refused[0].Senders[0].Sender)
		assert.EqualValues(t, 2, after.Refused[0].Senders[0].Count)

		c.Observe(failedAttempt(99, "order 99 unknown"))
		c.Stop()
		c = startCauses(store, anyName)
		defer c.Stop()
		again := c.Report().Failed[0]
		assert.EqualValues(t, want.Attempts.Total+1, again.Attempts.Total)
		assert.EqualValues(t, want.Attempts.Hour+1, again.Attempts.Hour)
		assert.Equal(t, []string{"m99", "m6", "m5", "m4", "m3"}, ids(again.Newest))
	})
}

func ids(calls []stats.Call) (ids []string) {
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestFailuresOfRemovedDestinationsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		c := startCauses(store, anyName)
		other := failedAttempt(1, "no")
		other.Destination = "removed"
		c.Observe(other)
		other.Destination = "added again"
		c.Observe(other)
		c.Observe(failedAttempt(1, "no"))
		c.Observe(refusal(tracking.Sender{}))
		time.Sleep(time.Minute)
		c.Delete("crm")
		c.Stop()
		again := time.Now()
		c = startCauses(store, func(name string, at time.Time) bool { return name != "removed" && !at.Before(again) })
		assert.Empty(t, c.Report().Failed)
		assert.Len(t, c.Report().Refused, 1)
		c.Stop()
		keys, err := store.Keys(t.Context(), "causes")
		require.NoError(t, err)
		assert.Len(t, keys, 1)
	})
}

func TestEvictedGroupsAreCountedAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		c := startCauses(store, anyName)
		for n := range 210 {
			r := refusal(tracking.Sender{})
			r.Source = fmt.Sprint("s", n)
			c.Observe(r)
			time.Sleep(time.Second)
		}
		before := c.Report()
		c.Stop()
		keys, err := store.Keys(t.Context(), "causes")
		require.NoError(t, err)
		assert.Len(t, keys, 201)
		c = startCauses(store, anyName)
		defer c.Stop()
		assert.Equal(t, stats.Others{Groups: 10, Calls: 10}, before.OtherRefused)
		assert.Equal(t, before.OtherRefused, c.Report().OtherRefused)
		assert.Len(t, c.Report().Refused, 200)
	})
}

// TestUnsavedRecordsAreNotDeleted checks that evicting unsaved groups costs no I/O.
func TestUnsavedRecordsAreNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deleteCounter{Store: state.NewMemory()}
		c := startCauses(store, anyName)
		defer c.Stop()
		observe := func(first int) {
			for n := range 300 {
				r := refusal(tracking.Sender{})
				r.Source = fmt.Sprint("s", first+n)
				c.Observe(r)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		observe(0)
		assert.EqualValues(t, 0, store.n.Load())
		observe(300)
		assert.EqualValues(t, 200, store.n.Load())
		keys, err := store.Keys(t.Context(), "causes")
		require.NoError(t, err)
		assert.Len(t, keys, 201, "200 groups, and the evicted ones")
	})
}

// A deleteCounter counts calls of Delete.
type deleteCounter struct {
	state.Store
	n atomic.Int64
}

func (s *deleteCounter) Delete(ctx context.Context, key string) error {
	s.n.Add(1)
	return s.Store.Delete(ctx, key)
}

// TestLastSeenOfSendersSurvivesRestart checks the time of the last problem of a restored sender. A
// stored sender stands for several addresses, and may have been seen before or after the senders
// that were counted since the restart.
func TestLastSeenOfSendersSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		c := startCauses(store, anyName)
		for _, address := range []string{"192.0.2.7", "192.0.2.8", "192.0.2.7"} {
			time.Sleep(time.Second)
			c.Observe(refusal(tracking.Sender{Address: address, UserAgent: "curl/8"}))
		}
		last := time.Now()
		c.Stop()
		time.Sleep(time.Hour)
		c = startCauses(store, anyName)
		senders := c.Report().Refused[0].Senders
		c.Stop()
		require.Len(t, senders, 1)
		assert.True(t, senders[0].Last.Equal(last), "%v, want %v", senders[0].Last, last)

		c = stats.NewCauses()
		c.Observe(refusal(tracking.Sender{UserAgent: "curl/8"}))
		c.Start(store, quiet(), anyName)
		synctest.Wait()
		senders = c.Report().Refused[0].Senders
		c.Stop()
		require.Len(t, senders, 1)
		assert.EqualValues(t, 4, senders[0].Count)
		assert.True(t, senders[0].Last.Equal(time.Now()), "%v, want %v", senders[0].Last, time.Now())
	})
}

// TestUnreadableRecordResetsAllGroups checks that all counts start again, because Report.Since
// applies to every group.
func TestUnreadableRecordResetsAllGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		c := startCauses(store, anyName)
		c.Observe(failedAttempt(1, "no"))
		c.Observe(refusal(tracking.Sender{}))
		c.Stop()
		keys, err := store.Keys(t.Context(), "causes")
		require.NoError(t, err)
		require.Len(t, keys, 2)
		require.NoError(t, store.Put(t.Context(), keys[0], []byte("of another version")))
		time.Sleep(time.Hour)

		var log bytes.Buffer
		c = stats.NewCauses()
		c.Start(store, slog.New(slog.NewTextHandler(&log, nil)), anyName)
		synctest.Wait()
		assert.True(t, strings.Contains(log.String(), keys[0]), log.String())
		report := c.Report()
		assert.Empty(t, append(report.Failed, report.Refused...))
		assert.True(t, report.Since.Equal(time.Now()), report.Since)
		c.Stop()
		keys, err = store.Keys(t.Context(), "causes")
		require.NoError(t, err)
		assert.Empty(t, keys)
	})
}
