package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// fill appends concurrently until the journal is full, and returns the number of accepted
// batches.
func fill(t *testing.T, j *jetstream.Journal) (batches int) {
	t.Helper()
	var senders sync.WaitGroup
	var mu sync.Mutex // guards batches
	for s := range 16 {
		random := rand.New(rand.NewSource(int64(s)))
		senders.Go(func() {
			for n := 0; ; n++ {
				body := make([]byte, 20<<10)
				_, _ = random.Read(body)
				err := j.Append(context.Background(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{
					{ID: fmt.Sprint(s, "-", n), Source: "web", Body: fmt.Appendf(nil, `{"type":"track","noise":"%x"}`, body)},
				}})
				if err != nil {
					if !errors.Is(err, journal.ErrFull) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				batches++
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	return batches
}

func TestMaxBytesHoldsFromTheFirstCall(t *testing.T) {
	const limit = 2 << 20
	options := jetstream.Options{Dir: t.TempDir(), MaxBytes: limit}
	j := open(t, options)
	attach(t, j, "crm")
	require.Positive(t, fill(t, j))
	for more := 1; more > 0; more = fill(t, j) {
		require.NoError(t, j.Trim(within(t))) // a trim that runs during a write can count this write twice
	}
	for range 3 {
		stats, err := j.Stats(within(t))
		require.NoError(t, err)
		assert.Less(t, stats.Calls.Bytes, uint64(limit+64<<10), "at most one batch beyond it")
		require.NoError(t, j.Close())
		j = open(t, options)
		assert.Zero(t, fill(t, j), "batches accepted by a full journal after a restart")
	}
}
