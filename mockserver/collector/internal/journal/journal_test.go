package journal_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	journalpkg "github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

func open(t testing.TB, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJournal(t *testing.T) {
	dirs := map[journalpkg.Journal]string{}
	journaltest.Run(t, journaltest.Options{
		Open: func(t *testing.T, maxBytes int64) journalpkg.Journal {
			dir := t.TempDir()
			j := open(t, journal.Options{Dir: dir, MaxBytes: maxBytes})
			dirs[j] = dir
			return j
		},
		Reopen: func(t *testing.T, j journalpkg.Journal) journalpkg.Journal {
			return reopen(t, dirs[j])
		},
	})
}

// reopen opens what a process leaves that is killed now: a copy of its files.
func reopen(t testing.TB, dir string) *journal.Journal {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return open(t, journal.Options{Dir: left})
}

func contextUntil(t testing.TB, deadline time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.Context(), deadline)
}
