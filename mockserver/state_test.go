package mockserver_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
)

func TestMemoryState(t *testing.T) {
	journaltest.RunState(t, func(*testing.T) mockserver.StateStore { return mockserver.NewMemoryState() }, nil)
}
