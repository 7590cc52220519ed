package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

func TestGatherOutcomes(t *testing.T) {
	large := &record.Outcome{Delivered: 1, Failed: make([]record.Failure, 1000)}
	for i := range large.Failed {
		large.Failed[i].Reason = string(make([]byte, 200))
	}
	type arrival struct {
		after   time.Duration
		outcome *record.Outcome
	}
	one, many := &record.Outcome{Delivered: 1}, &record.Outcome{Delivered: resultsCalls - 1}
	for name, test := range map[string]struct {
		due      time.Duration // delay from now
		atOnce   bool          // whether the first outcome must not wait
		arrivals []arrival     // outcomes that arrive after the first one
		end      time.Duration // when the journal is closed; 0 for never
		want     int           // number of outcomes in the group
		wantNext bool
		wantTook time.Duration
	}{
		"the first after a pause is written immediately": {arrivals: []arrival{{1, one}}, want: 1},
		"with queued outcomes":                           {arrivals: []arrival{{0, one}, {0, one}}, want: 3},
		"outcomes that arrive before it is due":          {due: resultsEvery, arrivals: []arrival{{1, one}, {resultsEvery - 2, one}, {resultsEvery, one}}, want: 3, wantTook: resultsEvery},
		"enough calls are written earlier":               {due: resultsEvery, arrivals: []arrival{{1, one}, {1, many}, {1, one}}, want: 3, wantTook: 2},
		"enough queued calls":                            {due: resultsEvery, arrivals: []arrival{{0, many}, {0, one}}, want: 3},
		"an outcome that must not wait":                  {due: resultsEvery, atOnce: true, arrivals: []arrival{{0, one}, {1, one}}, want: 2},
		"an outcome that does not fit is next":           {due: resultsEvery, arrivals: []arrival{{0, large}, {0, large}}, want: 2, wantNext: true},
		"closing the journal":                            {due: resultsEvery, arrivals: []arrival{{1, one}}, end: 2, want: 2, wantTook: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.end > 0 {
					defer time.AfterFunc(test.end, cancel).Stop()
				}
				began := time.Now()
				r := &results{ctx: ctx, queue: make(chan *pendingResult, resultsQueue), due: began.Add(test.due)}
				for len(test.arrivals) > 0 && test.arrivals[0].after == 0 {
					r.write(test.arrivals[0].outcome, true)
					test.arrivals = test.arrivals[1:]
				}
				go func() {
					for _, c := range test.arrivals {
						time.Sleep(c.after)
						r.write(c.outcome, true)
					}
				}()
				group, next := r.gather(&pendingResult{outcome: one, mayWait: !test.atOnce})
				assert.Len(t, group, test.want)
				assert.Equal(t, test.wantNext, next != nil)
				require.Equal(t, test.wantTook, time.Since(began))
				time.Sleep(time.Minute) // let late outcomes arrive
			})
		})
	}
}

// TestWriteAfterCloseFails checks that callers of write receive a state even after the journal has
// been closed. Otherwise, Close would block forever.
func TestWriteAfterCloseFails(t *testing.T) {
	s := store.New("test", false, slog.New(slog.DiscardHandler))
	r := newResults(s, nil, new(atomic.Uint64), "o")
	s.Cancel(journal.ErrClosed)
	r.run()
	for range 100 {
		select {
		case state := <-r.write(&record.Outcome{}, false):
			if !errors.Is(state.err, journal.ErrClosed) {
				t.Fatal(state)
			}
		default:
			t.Fatal("an outcome is neither written nor refused")
		}
	}
}
