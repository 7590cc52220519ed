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

func TestOutcomesGather(t *testing.T) {
	large := &record.Outcome{Delivered: 1, Failed: make([]record.Failure, 1000)}
	for i := range large.Failed {
		large.Failed[i].Reason = string(make([]byte, 200))
	}
	type coming struct {
		after   time.Duration
		outcome *record.Outcome
	}
	one, many := &record.Outcome{Delivered: 1}, &record.Outcome{Delivered: resultsCalls - 1}
	for name, test := range map[string]struct {
		due      time.Duration // from now
		atOnce   bool          // the first must not wait
		coming   []coming      // after the first
		end      time.Duration // when the journal is closed; 0: never
		want     int           // outcomes in the group
		wantNext bool
		wantTook time.Duration
	}{
		"the first after a while is written at once": {coming: []coming{{1, one}}, want: 1},
		"with what waits already":                    {coming: []coming{{0, one}, {0, one}}, want: 3},
		"what comes until it is due":                 {due: resultsEvery, coming: []coming{{1, one}, {resultsEvery - 2, one}, {resultsEvery, one}}, want: 3, wantTook: resultsEvery},
		"enough calls are written before":            {due: resultsEvery, coming: []coming{{1, one}, {1, many}, {1, one}}, want: 3, wantTook: 2},
		"enough calls with what waits":               {due: resultsEvery, coming: []coming{{0, many}, {0, one}}, want: 3},
		"one that may not wait":                      {due: resultsEvery, atOnce: true, coming: []coming{{0, one}, {1, one}}, want: 2},
		"what does not fit is next":                  {due: resultsEvery, coming: []coming{{0, large}, {0, large}}, want: 2, wantNext: true},
		"the end of the journal":                     {due: resultsEvery, coming: []coming{{1, one}}, end: 2, want: 2, wantTook: 2},
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
				for len(test.coming) > 0 && test.coming[0].after == 0 {
					r.write(test.coming[0].outcome, true)
					test.coming = test.coming[1:]
				}
				go func() {
					for _, c := range test.coming {
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

// Callers of write wait for a state even after the journal has been closed; otherwise Close
// would block forever.
func TestOutcomesThatComeAfterTheEndAreRefused(t *testing.T) {
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
