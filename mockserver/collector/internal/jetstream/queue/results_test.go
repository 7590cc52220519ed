package queue

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// Whoever hands over an outcome waits for what becomes of it, also when the
// journal has been closed: else Close would wait for ever for those who wait.
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
