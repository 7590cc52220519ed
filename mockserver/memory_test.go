package mockserver_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
)

func TestMemoryJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Options{
		Open: func(_ *testing.T, maxBytes int64) mockserver.Journal {
			return mockserver.NewMemoryJournal(maxBytes, nil)
		},
	})
}
