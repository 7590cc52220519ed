package jetstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	for name, bucket := range map[string]func(*jetstream.Journal) state.Store{
		"settings": (*jetstream.Journal).Settings, "state": (*jetstream.Journal).State,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dir string
			var j *jetstream.Journal
			reopen := func(t *testing.T) state.Store {
				j = open(t, jetstream.Options{Dir: dir})
				return bucket(j)
			}
			journaltest.RunState(t, func(t *testing.T) state.Store {
				dir = t.TempDir()
				return reopen(t)
			}, func(t *testing.T) state.Store {
				require.NoError(t, j.Close())
				return reopen(t)
			})
		})
	}
}
