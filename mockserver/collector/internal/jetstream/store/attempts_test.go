package store_test

import (
	"testing"
	"testing/synctest"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// TestDroppedAttemptsAreCounted uses a fake clock that does not advance, so nothing is stored.
func TestDroppedAttemptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := store.NewAttemptLog(nil, func() bool { return false })
		large := make([]byte, 3<<20)
		for range 3 {
			l.Record(large)
		}
		if n := l.Dropped(); n != 1 {
			t.Fatalf("%d records were dropped, want 1", n)
		}
	})
}
