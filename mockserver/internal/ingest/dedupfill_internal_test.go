package ingest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// TestFillDoesNotBlockCalls checks that calls can be added while Fill reads the stored calls, which
// may take long.
func TestFillDoesNotBlockCalls(t *testing.T) {
	d := NewDedup(time.Hour, 100)
	d.Fill(func(yield func(event.Key) bool) {
		yield(event.KeyOf("web", "a"))
		added := make(chan struct{})
		go func() {
			defer close(added)
			d.Add("web", "b")
		}()
		select {
		case <-added:
		case <-time.After(5 * time.Second):
			t.Error("Add waits for Fill")
		}
		yield(event.KeyOf("web", "c"))
	})
	for _, id := range []string{"a", "b", "c"} {
		assert.Contains(t, d.current, event.KeyOf("web", id))
	}
}
