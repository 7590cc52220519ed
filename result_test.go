package analytics

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
		var got []Result
		var released []int
		d := &dispatcher{
			log: newLogger(log.New(&text, "", 0), nil, false, "key"),
			callback: func(r Result) {
				got = append(got, r)
				if r.MessageId == "b" {
					panic("on fire")
				}
				time.Sleep(time.Second)
			},
			release: func(b *batch) { released = append(released, b.calls) },
		}
		d.dispatch(result{batch: &batch{calls: 2, ids: []callID{{"a", "track", 1}, {"b", "page", nil}}}})
		why := &DropError{Reason: DropRefused, Attempts: 1}
		d.dispatch(result{batch: &batch{calls: 1, ids: []callID{{"c", "track", nil}}}, why: why})
		d.note(entry{line: "a line of 5 words"})
		d.note(entry{message: "for Config.Slog alone"})
		d.wait()
		require.Equal(t, []Result{{"a", "track", nil, 1}, {"b", "page", nil, nil}, {"c", "track", why, nil}}, got)
		require.Equal(t, []int{2, 1, 0}, released)
		require.Equal(t, "the callback panicked on page \"b\": on fire\nlost 1 call: refused, attempt 1\na line of 5 words\n", text.String())
	})
}

// A callback may dispatch in turn. No result is lost as the goroutine ends.
func TestDispatcherConcurrentSafe(t *testing.T) {
	var got int
	d := &dispatcher{log: newLogger(nil, nil, false, "key"), release: func(*batch) {}, callback: func(Result) { got++ }}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				d.dispatch(result{batch: &batch{ids: []callID{{}}}})
			}
		})
	}
	group.Wait()
	d.wait()
	require.Equal(t, 1600, got)
}
