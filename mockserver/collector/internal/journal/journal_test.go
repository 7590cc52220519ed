package journal_test

import (
	"os"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
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
	dirs := map[mockserver.Journal]string{}
	journaltest.Run(t, journaltest.Options{
		Open: func(t *testing.T, maxBytes int64) mockserver.Journal {
			dir := t.TempDir()
			j := open(t, journal.Options{Dir: dir, MaxBytes: maxBytes})
			dirs[j] = dir
			return j
		},
		// What a killed process leaves is the files as they are: a copy of them,
		// taken while the journal is at work, is opened in its stead.
		Reopen: func(t *testing.T, j mockserver.Journal) mockserver.Journal {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(dirs[j])); err != nil {
				t.Fatal(err)
			}
			return open(t, journal.Options{Dir: dir})
		},
	})
}
