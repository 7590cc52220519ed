package journal_test

import (
	"context"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	statepkg "github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/stretchr/testify/require"
)

func TestBuckets(t *testing.T) {
	for name, bucket := range map[string]func(*journal.Journal, context.Context) (statepkg.Store, error){
		"settings": (*journal.Journal).Settings, "state": (*journal.Journal).State,
	} {
		t.Run(name, func(t *testing.T) {
			var dir string
			var j *journal.Journal
			state := func(t *testing.T) statepkg.Store {
				j = open(t, journal.Options{Dir: dir})
				s, err := bucket(j, t.Context())
				require.NoError(t, err)
				return s
			}
			journaltest.RunState(t, func(t *testing.T) statepkg.Store {
				dir = t.TempDir()
				return state(t)
			}, func(t *testing.T) statepkg.Store {
				require.NoError(t, j.Close())
				return state(t)
			})
		})
	}
}
