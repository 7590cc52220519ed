package jetstream_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

// TestCollectorsStartConcurrently opens several journals at once on an empty cluster. The full
// length is JOURNAL_STARTS=20.
func TestCollectorsStartConcurrently(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: three servers")
	}
	t.Parallel() // the test mostly waits
	c := startCluster(t)
	for round := range times("JOURNAL_STARTS", 2) {
		options := jetstream.Options{Name: fmt.Sprint("round", round), NATS: &jetstream.NATS{URL: c.url()}}
		var journals [4]*jetstream.Journal
		var starting sync.WaitGroup
		for i := range journals {
			starting.Go(func() {
				var err error
				if journals[i], err = startPatiently(t, options); !assert.NoError(t, err, "round %d", round) {
					return
				}
				if _, err = journals[i].Attach(within(t), "crm", nil); assert.NoError(t, err, "round %d", round) {
					assert.NoError(t, journals[i].Append(within(t), event.Batch{
						Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", fmt.Sprint(i, "."), 1),
					}))
				}
			})
		}
		starting.Wait()
		require.False(t, t.Failed())
		work(t, attach(t, journals[0], "crm"), len(journals), delivered)
		for _, j := range journals {
			require.NoError(t, j.Close())
		}
	}
}

// startPatiently opens a journal, with retries like a collector.
func startPatiently(t *testing.T, o jetstream.Options) (*jetstream.Journal, error) {
	for {
		j, err := jetstream.Open(within(t), o)
		if err == nil {
			_, err = j.Settings().Keys(within(t), "settings")
		}
		if err == nil {
			_, err = j.State().Keys(within(t), "lists")
		}
		if err == nil || !jetstream.Transient(err) {
			return j, err
		}
		if j != nil {
			_ = j.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
}
