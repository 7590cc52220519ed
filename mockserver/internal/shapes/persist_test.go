package shapes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start returns a Shapes that has been restored from a store.
func start(store state.Store, log *slog.Logger) *shapes.Shapes {
	s := shapes.New()
	s.Start(store, log)
	synctest.Wait()
	return s
}

func TestShapesSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		s := start(store, quiet())
		track(t, s, "Order Completed", times(30, `{"total":1.5,"currency":"EUR","items":[{"sku":"a"}],"address":{"city":"Ulm"}}`)...)
		track(t, s, "Order Completed", times(2, `{"total":"1"}`)...)
		for i := range 20 {
			track(t, s, fmt.Sprint("Event ", i), `{"n":1}`)
		}
		before, summary := s.Events(), s.Summary()
		s.Stop()

		time.Sleep(time.Hour)
		s = start(store, quiet())
		assert.Equal(t, summary, s.Summary())
		after := s.Events()
		require.Len(t, after, len(before))
		order := func(events []shapes.Event) *shapes.Event {
			for i := range events {
				if events[i].Name == "Order Completed" {
					return &events[i]
				}
			}
			return nil
		}
		assert.Equal(t, order(before), order(after))

		track(t, s, "Order Completed", `{"total":2.5,"currency":"EUR"}`)
		s.Stop()
		s = start(store, quiet())
		defer s.Stop()
		again := order(s.Events())
		assert.EqualValues(t, 33, again.Calls)
		assert.EqualValues(t, 31, again.Property("currency").Calls)
		assert.EqualValues(t, 31, again.Property("currency").Common[0].Count)
		assert.EqualValues(t, 2, again.Property("total").Types[1].Count)
	})
}

func TestCallsBeforeRestoreAreAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: state.NewMemory()}
		s := start(store, quiet())
		track(t, s, "E", times(3, `{"a":1,"b":"x"}`)...)
		s.Stop()

		store.wait.Store(int64(10 * time.Second))
		s = start(store, quiet())
		track(t, s, "E", times(2, `{"a":1,"c":"y"}`)...)
		track(t, s, "F", `{}`)
		assert.EqualValues(t, 2, s.Events()[0].Calls, "Start does not wait")
		assert.True(t, s.Summary().Reading)
		time.Sleep(time.Minute)
		store.wait.Store(0)
		synctest.Wait()
		assert.False(t, s.Summary().Reading)
		s.Stop()

		s = start(store, quiet())
		defer s.Stop()
		require.Len(t, s.Events(), 2)
		e := s.Events()[0]
		assert.EqualValues(t, 5, e.Calls)
		for path, calls := range map[string]uint64{"a": 5, "b": 3, "c": 2} {
			assert.Equal(t, calls, e.Property(path).Calls, path)
		}
		assert.EqualValues(t, 3, e.Property("b").Common[0].Count)
	})
}

// A slowStore delays or fails Keys.
type slowStore struct {
	state.Store
	wait atomic.Int64
	fail atomic.Bool
}

func (s *slowStore) Keys(ctx context.Context, prefix string) ([]string, error) {
	if s.fail.Load() {
		return nil, errors.New("the disk has failed")
	}
	select {
	case <-time.After(time.Duration(s.wait.Load())):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Keys(ctx, prefix)
}

func (s *slowStore) Put(ctx context.Context, key string, value []byte) error {
	if s.fail.Load() {
		return errors.New("the disk has failed")
	}
	return s.Store.Put(ctx, key, value)
}

func TestUnreadableRecordIsLoggedAndReset(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(good []byte) []byte
	}{
		{"no gzip", func([]byte) []byte { return []byte("?") }},
		{"cut off", func(good []byte) []byte { return good[:len(good)/2] }},
		{"empty", func([]byte) []byte { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := state.NewMemory()
				s := start(store, quiet())
				for i := range 16 {
					track(t, s, fmt.Sprint("Event ", i), `{"n":1}`)
				}
				s.Stop()
				keys, err := store.Keys(t.Context(), "shapes")
				require.NoError(t, err)
				require.Len(t, keys, 2)
				good, _, err := store.Get(t.Context(), "shapes.0")
				require.NoError(t, err)
				require.NoError(t, store.Put(t.Context(), "shapes.0", c.damage(good)))

				var log bytes.Buffer
				s = start(store, slog.New(slog.NewTextHandler(&log, nil)))
				assert.Len(t, s.Events(), 8, "the other record is read")
				assert.Contains(t, log.String(), "record=shapes.0")
				track(t, s, "Event 0", `{"n":1}`)
				s.Stop()

				log.Reset()
				s = start(store, slog.New(slog.NewTextHandler(&log, nil)))
				defer s.Stop()
				assert.GreaterOrEqual(t, len(s.Events()), 8)
				assert.Empty(t, log.String())
			})
		})
	}
}

func TestSaveIsRetriedAfterStoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: state.NewMemory()}
		s := start(store, quiet())
		track(t, s, "A", `{}`)
		s.Stop()

		var log bytes.Buffer
		store.fail.Store(true)
		s = start(store, slog.New(slog.NewTextHandler(&log, nil)))
		track(t, s, "B", `{}`)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Contains(t, log.String(), "the disk has failed")
		store.fail.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Len(t, s.Events(), 2, "stored events were not overwritten")

		store.fail.Store(true)
		track(t, s, "B", `{}`)
		time.Sleep(2 * time.Minute)
		store.fail.Store(false)
		s.Stop()
		s = start(store, quiet())
		defer s.Stop()
		require.Len(t, s.Events(), 2)
		assert.EqualValues(t, 2, s.Events()[1].Calls)
	})
}

func TestOnlyChangedRecordsAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		s := start(store, quiet())
		defer s.Stop()
		for i := range 24 {
			track(t, s, fmt.Sprint("Event ", i), `{}`)
		}
		time.Sleep(time.Minute + time.Second)
		revisions := func() (all []uint64) {
			for i := range 3 {
				_, revision, err := store.Get(t.Context(), fmt.Sprint("shapes.", i))
				require.NoError(t, err)
				all = append(all, revision)
			}
			return all
		}
		before := revisions()
		track(t, s, "Event 9", `{}`)
		time.Sleep(time.Minute)
		after := revisions()
		assert.Equal(t, []bool{true, false, true}, []bool{before[0] == after[0], before[1] == after[1], before[2] == after[2]})

		for _, e := range s.Events() {
			if e.Name >= "Event 16" && e.Name <= "Event 23" {
				s.Delete(e.ID)
			}
		}
		time.Sleep(time.Minute)
		keys, err := store.Keys(t.Context(), "shapes")
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"shapes.0", "shapes.1"}, keys, "a record without events is deleted")
	})
}

// TestDeletionDuringSave deletes an event before, during and after a save.
func TestDeletionDuringSave(t *testing.T) {
	var b strings.Builder // has many properties, so that copying is slow
	for i := range 100 {
		fmt.Fprintf(&b, `"p%d":"%d",`, i, i)
	}
	properties := "{" + strings.TrimSuffix(b.String(), ",") + "}"
	for round := range 20 {
		store := state.NewMemory()
		s := shapes.New()
		s.Start(store, quiet())
		for s.Summary().Reading {
			runtime.Gosched()
		}
		for i := range 8 {
			track(t, s, fmt.Sprint("Event ", i), properties)
		}
		deleted := s.Events()[0].ID
		var forgetting sync.WaitGroup
		forgetting.Go(func() {
			for began := time.Now(); time.Since(began) < time.Duration(round)*10*time.Microsecond; {
				runtime.Gosched()
			}
			s.Delete(deleted)
		})
		s.Stop()
		forgetting.Wait()
		s.Stop() // saves changes made during the first Stop
		s = shapes.New()
		s.Start(store, quiet())
		for s.Summary().Reading {
			runtime.Gosched()
		}
		require.Len(t, s.Events(), 7)
		s.Stop()
	}
}

func TestClearBeforeRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: state.NewMemory()}
		s := start(store, quiet())
		for i := range 20 {
			track(t, s, fmt.Sprint("Event ", i), `{}`)
		}
		s.Stop()

		store.wait.Store(int64(10 * time.Second))
		s = start(store, quiet())
		track(t, s, "Before", `{}`)
		s.Clear()
		track(t, s, "After", `{}`)
		time.Sleep(time.Minute)
		store.wait.Store(0)
		assert.Equal(t, "After", onlyEvent(t, s).Name)
		s.Stop()
		s = start(store, quiet())
		defer s.Stop()
		assert.Equal(t, "After", onlyEvent(t, s).Name)
	})
}

// TestDeletionBeforeRestore deletes an event that has new calls and an event without new calls.
func TestDeletionBeforeRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: state.NewMemory()}
		s := start(store, quiet())
		for _, name := range []string{"A", "B", "C"} {
			track(t, s, name, `{}`)
		}
		events := s.Events()
		s.Stop()

		store.wait.Store(int64(10 * time.Second))
		s = start(store, quiet())
		track(t, s, "A", `{}`)
		assert.True(t, s.Delete(events[0].ID))
		assert.True(t, s.Delete(events[1].ID))
		track(t, s, "A", `{}`)
		time.Sleep(time.Minute)
		store.wait.Store(0)
		s.Stop()
		s = start(store, quiet())
		defer s.Stop()
		require.Len(t, s.Events(), 2)
		assert.EqualValues(t, 1, s.Events()[0].Calls)
		assert.Equal(t, "C", s.Events()[1].Name)
		assert.False(t, s.Delete(events[1].ID))
	})
}

// TestClearTwice clears twice without a save in between.
func TestClearTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		s := start(store, quiet())
		for i := range 20 {
			track(t, s, fmt.Sprint("Event ", i), `{}`)
		}
		time.Sleep(time.Minute)
		synctest.Wait() // until the data is saved
		s.Clear()
		track(t, s, "Between", `{}`)
		s.Clear()
		s.Stop()
		keys, err := store.Keys(t.Context(), "shapes")
		require.NoError(t, err)
		assert.Empty(t, keys)
	})
}

// TestPersonalValuesAreNotStored checks single values and email addresses.
func TestPersonalValuesAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		s := start(store, quiet())
		track(t, s, "E", times(5, `{"plan":"Pro","mail":"ada@shop.example"}`)...)
		track(t, s, "E", `{"plan":"Pro","name":"Ada Lovelace"}`)
		for i := range 20 {
			track(t, s, "E", fmt.Sprintf(`{"phone":"0731-%d"}`, i))
		}
		s.Stop()
		s = start(store, quiet())
		defer s.Stop()
		e := onlyEvent(t, s)
		assert.Equal(t, `"Pro"`, string(e.Property("plan").Common[0].JSON))
		for _, path := range []string{"mail", "name", "phone"} {
			p := e.Property(path)
			assert.Empty(t, append(p.Common, p.Samples...), path)
		}
		assert.EqualValues(t, 5, e.Property("mail").OtherCount, "they are still counted")
		assert.False(t, strings.Contains(fmt.Sprint(e), "Ada"))
	})
}

// TestViolationMessagesAreNotStored checks that messages are not stored, because they may contain
// values.
func TestViolationMessagesAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		s := start(store, quiet())
		c := call(t, "web", `{"type":"track","event":"E","userId":"u","properties":{"age":"Ada"}}`)
		c.Violations = []tracking.Violation{{Kind: "wrong type", Pointer: "/properties/age", Message: `/properties/age is "Ada", a string; expected a number`}}
		observe(s, c)
		require.Len(t, onlyEvent(t, s).Violations, 1)
		assert.Equal(t, c.Violations[0], onlyEvent(t, s).Violations[0].Violation)
		s.Stop()

		s = start(store, quiet())
		defer s.Stop()
		require.Len(t, onlyEvent(t, s).Violations, 1)
		assert.Equal(t, "/properties/age: wrong type", onlyEvent(t, s).Violations[0].Message)
		observe(s, c)
		require.Len(t, onlyEvent(t, s).Violations, 1)
		assert.Equal(t, c.Violations[0], onlyEvent(t, s).Violations[0].Violation)
		assert.EqualValues(t, 2, onlyEvent(t, s).Violations[0].Calls)
	})
}
