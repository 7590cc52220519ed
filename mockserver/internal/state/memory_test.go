package state_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

func TestMemoryState(t *testing.T) {
	journaltest.RunState(t, func(*testing.T) state.Store { return state.NewMemory() }, nil)
}
