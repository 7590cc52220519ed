package queue

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// Whoever hands over an outcome waits for what becomes of it, also when the
// journal has been closed: else Close would wait for ever for those who wait.
func TestOutcomesThatComeAfterTheEndAreRefused(t *testing.T) {
	s := store.New("test", false, slog.New(slog.DiscardHandler))
	r := newResults(s, nil)
	s.Cancel(mockserver.ErrJournalClosed)
	r.run()
	for range 100 {
		select {
		case state := <-r.write(&record.Outcome{}):
			if !errors.Is(state.err, mockserver.ErrJournalClosed) {
				t.Fatal(state)
			}
		default:
			t.Fatal("an outcome is neither written nor refused")
		}
	}
}
