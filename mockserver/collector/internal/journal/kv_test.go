package journal_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
)

func TestBuckets(t *testing.T) {
	for name, bucket := range map[string]func(*journal.Journal, context.Context) (mockserver.StateStore, error){
		"settings": (*journal.Journal).Settings, "state": (*journal.Journal).State,
	} {
		t.Run(name, func(t *testing.T) {
			var dir string
			var j *journal.Journal
			state := func(t *testing.T) mockserver.StateStore {
				j = open(t, journal.Options{Dir: dir})
				s, err := bucket(j, t.Context())
				require.NoError(t, err)
				return s
			}
			journaltest.RunState(t, func(t *testing.T) mockserver.StateStore {
				dir = t.TempDir()
				return state(t)
			}, func(t *testing.T) mockserver.StateStore {
				require.NoError(t, j.Close())
				return state(t)
			})
		})
	}
}
