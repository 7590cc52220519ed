package mockserver_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

func TestMemoryState(t *testing.T) {
	journaltest.RunState(t, func(*testing.T) state.Store { return state.NewMemory() }, nil)
}
