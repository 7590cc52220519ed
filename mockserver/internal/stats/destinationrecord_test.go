package stats_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// startDestinations returns a Destinations that has been restored from a store.
func startDestinations(store state.Store) *stats.Destinations {
	d := stats.NewDestinations()
	d.Start(store, quiet(), anyName)
	synctest.Wait()
	return d
}

func TestMeasuresSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		d := startDestinations(store)
		for ms := range 40 {
			d.Observe(attempt("crm", time.Duration(ms)*time.Millisecond, nil))
			time.Sleep(3 * time.Minute)
		}
		d.Observe(attempt("crm", time.Millisecond, func(a *tracking.Attempt) {
			refused(a)
			a.ResponseBody = []byte("no user Ada here")
		}))
		before, began := d.Of("crm"), d.Of("other").Since
		d.Stop()

		d = startDestinations(store)
		after := d.Of("crm")
		if !strings.Contains(before.LastFailure.Error, "Ada") || after.LastFailure.Error != "responded with 400 (Bad Request)" {
			t.Errorf("the failure was %q, and is %q after a restart, want no response", before.LastFailure.Error, after.LastFailure.Error)
		}
		before.LastFailure, after.LastFailure = nil, nil
		before.Since, after.Since = before.Since.UTC(), after.Since.UTC()
		if !reflect.DeepEqual(before, after) {
			t.Errorf("after a restart %+v, want %+v", after, before)
		}
		if !after.Since.Equal(began) || !d.Of("other").Since.Equal(time.Now()) {
			t.Errorf("counted since %v, and at a destination without attempts since %v; want %v and %v", after.Since, d.Of("other").Since, began, time.Now())
		}

		time.Sleep(time.Hour)
		d.Observe(attempt("crm", time.Millisecond, nil))
		d.Stop()
		d = startDestinations(store)
		defer d.Stop()
		if m := d.Of("crm"); m.Hour.Attempts != 2 || m.Day.Attempts != 42 || m.Day.Failed != 1 {
			t.Errorf("an hour later %+v, want 42 attempts in the day, and two in the last hour", m)
		}
	})
}

func TestOnlyChangedRecordsAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{Store: state.NewMemory()}
		d := startDestinations(store)
		defer d.Stop()
		for i := range 9 {
			d.Observe(attempt(fmt.Sprint("d", i), time.Millisecond, nil))
		}
		for _, c := range []struct {
			name string
			do   func()
			puts int64
		}{
			{"all", func() {}, 9},
			{"nothing", func() {}, 0},
			{"one", func() { d.Observe(attempt("d3", time.Millisecond, nil)) }, 1},
		} {
			c.do()
			store.puts.Store(0)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := store.puts.Load(); got != c.puts {
				t.Errorf("%s has changed: %d records were written, want %d", c.name, got, c.puts)
			}
		}
	})
}

type countingStore struct {
	state.Store
	puts atomic.Int64
}

func (s *countingStore) Put(ctx context.Context, key string, value []byte) error {
	s.puts.Add(1)
	return s.Store.Put(ctx, key, value)
}

func TestDeletedDestinationsAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		d := startDestinations(store)
		for _, name := range []string{"crm", "gone", "removed", "added again"} {
			d.Observe(attempt(name, time.Millisecond, nil))
		}
		time.Sleep(time.Minute)
		again := time.Now()
		d.Observe(attempt("crm", 0, nil))
		d.Delete("gone")
		d.Stop()
		if keys, err := store.Keys(t.Context(), "measures"); err != nil || len(keys) != 3 {
			t.Errorf("records %q, %v; want three", keys, err)
		}

		d = stats.NewDestinations()
		d.Start(store, quiet(), func(name string, at time.Time) bool { return name != "removed" && !at.Before(again) })
		synctest.Wait()
		d.Stop()
		for _, name := range []string{"removed", "added again"} {
			if n := d.Of(name).Day.Attempts; n != 0 {
				t.Errorf("%d attempts of a destination that was %s while the collector was stopped", n, name)
			}
		}
		if keys, err := store.Keys(t.Context(), "measures"); err != nil || len(keys) != 1 {
			t.Errorf("records %q, %v; want one", keys, err)
		}
	})
}

// TestUnreadableRecordIsLoggedAndReset checks the counts, and checks them again after another
// restart.
func TestUnreadableRecordIsLoggedAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		d := startDestinations(store)
		d.Observe(attempt("crm", time.Millisecond, nil))
		d.Stop()
		keys, err := store.Keys(t.Context(), "measures")
		if err != nil || len(keys) != 1 {
			t.Fatalf("records %q, %v", keys, err)
		}
		if err := store.Put(t.Context(), keys[0], []byte("of another version")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)

		var log bytes.Buffer
		d = stats.NewDestinations()
		d.Start(store, slog.New(slog.NewTextHandler(&log, nil)), anyName)
		synctest.Wait()
		if !strings.Contains(log.String(), `records="the measures of destinations"`) || !strings.Contains(log.String(), keys[0]) {
			t.Errorf("log %q, want the name of the record", log.String())
		}
		d.Observe(attempt("crm", time.Millisecond, nil))
		if m := d.Of("crm"); m.Day.Attempts != 1 || !m.Since.Equal(time.Now()) {
			t.Errorf("%+v, want one attempt, counted from now on", m)
		}
		d.Stop()
		d = startDestinations(store)
		defer d.Stop()
		if m := d.Of("crm"); m.Day.Attempts != 1 {
			t.Errorf("%+v after another restart, want one attempt", m)
		}
	})
}

func TestEvictionRestartsCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := stats.NewDestinations()
		for i := range 1001 {
			time.Sleep(time.Second)
			d.Observe(attempt(fmt.Sprint("d", i), time.Millisecond, nil))
		}
		if since := d.Of("d0").Since; !since.Equal(time.Now()) {
			t.Errorf("the evicted destination is counted since %v, want %v", since, time.Now())
		}
		if since := d.Of("d1").Since; !since.Equal(time.Now().Add(-1001 * time.Second)) {
			t.Errorf("another destination is counted since %v, want the start", since)
		}
	})
}
