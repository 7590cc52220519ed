package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// flipInPlace changes a byte of a file that a server has open.
func flipInPlace(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
}

// scrubbed returns the damage that one round of the scrubber finds.
func scrubbed(t *testing.T, j *jetstream.Journal) []string {
	t.Helper()
	require.NoError(t, j.Scrub(within(t)))
	health, err := j.Health(within(t))
	require.NoError(t, err)
	assert.Positive(t, health.Scrub.Rounds)
	assert.Positive(t, health.Scrub.Bytes)
	assert.WithinDuration(t, time.Now(), health.Scrub.FinishedAt, patience)
	return health.Scrub.Damage
}

// keepBusy appends, delivers and removes calls until stop is called.
func keepBusy(t *testing.T, j *jetstream.Journal) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	r := attach(t, j, "crm")
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			err := j.Append(within(t), event.Batch{
				Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", fmt.Sprint(i, "."), 10),
			})
			full := errors.Is(err, journal.ErrFull) // deliveries can be slower than appending
			assert.True(t, err == nil || full, err)
			if full || i%50 == 49 {
				assert.NoError(t, j.Trim(within(t)))
			}
		}
	})
	work.Go(func() {
		for n := 0; ; n++ {
			l, err := r.Next(ctx, journal.Want{})
			if err != nil {
				return
			}
			result := journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
			for i := range result.Outcomes {
				result.Outcomes[i].State = tracking.State((i + n) % 3)
			}
			assert.NoError(t, l.Finish(within(t), result))
		}
	})
	return func() { cancel(); work.Wait() }
}

func TestScrubFindsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir, MaxBytes: 64 << 10}) // a small limit, so that messages are removed
	stop := keepBusy(t, j)
	for range 5 {
		assert.Empty(t, scrubbed(t, j))
	}
	stop()
	assert.Empty(t, scrubbed(t, j))
	for i, stream := range []string{"OUTCOMES", "FAILED"} {
		flipInPlace(t, streamFile(t, dir, stream, "msgs/*.blk"), 100)
		damage := scrubbed(t, j)
		assert.Len(t, damage, i+1, "each round finds it")
		assert.Contains(t, strings.Join(damage, "\n"), "analytics-"+stream)
	}
}

// TestScrubFindsDamagedReplica belongs to the long tests, because a server responds from memory
// for a while.
func TestScrubFindsDamagedReplica(t *testing.T) {
	if os.Getenv("JOURNAL_CLUSTER_KILLS") == "" {
		t.Skip("takes 90 seconds: set JOURNAL_CLUSTER_KILLS")
	}
	c := startCluster(t)
	j := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: c.url()}})
	stop := keepBusy(t, j)
	for range 2 {
		assert.Empty(t, scrubbed(t, j))
	}
	stop()
	c.ready()
	require.Empty(t, scrubbed(t, j))

	blocks, err := filepath.Glob(filepath.Join(c.nodes[1].Dir, "jetstream", "*", "streams", "analytics-OUTCOMES", "msgs", "*.blk"))
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	flipInPlace(t, blocks[0], 200)
	// A server keeps messages in memory for ten seconds after a read.
	require.Eventually(t, func() bool {
		damage := scrubbed(t, j)
		return len(damage) == 1 && strings.HasPrefix(damage[0], "server s1: ") && strings.Contains(damage[0], "analytics-OUTCOMES")
	}, 4*patience, 12*time.Second)
}
