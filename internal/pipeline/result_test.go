package pipeline

import (
	"log"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDispatcherPassesResultsOnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		type end struct {
			CallID
			why *Drop
		}
		var got []end
		var released []int
		d := &dispatcher{
			log: newLogger(log.New(&text, "", 0), nil, false, "key"),
			callback: func(id CallID, why *Drop) {
				got = append(got, end{id, why})
				if id.ID == "b" {
					panic("on fire")
				}
				time.Sleep(time.Second)
			},
			release: func(b *batch) { released = append(released, b.calls) },
		}
		d.dispatch(result{batch: &batch{calls: 2, ids: []CallID{{"a", "track", 1}, {"b", "page", nil}}}})
		why := &Drop{Reason: Refused, Attempts: 1}
		d.dispatch(result{batch: &batch{calls: 1, ids: []CallID{{"c", "track", nil}}}, why: why})
		d.note(entry{line: "a line of 5 words"})
		d.note(entry{message: "for Config.Slog alone"})
		d.wait()
		require.Equal(t, []end{{CallID{"a", "track", 1}, nil}, {CallID{"b", "page", nil}, nil}, {CallID{"c", "track", nil}, why}}, got)
		require.Equal(t, []int{2, 1, 0}, released)
		require.Equal(t, "the callback panicked on page \"b\": on fire\nlost 1 call: refused, attempt 1\na line of 5 words\n", text.String())
	})
}

// A callback may dispatch results. No result is lost, even if the dispatcher's goroutine is about to
// exit.
func TestDispatcherConcurrentSafe(t *testing.T) {
	var got int
	d := &dispatcher{log: newLogger(nil, nil, false, "key"), release: func(*batch) {}, callback: func(CallID, *Drop) { got++ }}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				d.dispatch(result{batch: &batch{ids: []CallID{{}}}})
			}
		})
	}
	group.Wait()
	d.wait()
	require.Equal(t, 1600, got)
}
