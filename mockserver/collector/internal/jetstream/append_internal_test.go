package jetstream

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

func TestIdleWritersAreRemoved(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	for i := range 20 {
		source := fmt.Sprintf("source-%d", i)
		require.NoError(t, j.Append(within(t), event.Batch{Source: source, ReceivedAt: time.Now(), Calls: journaltest.Calls(source, "m", 1)}))
	}
	j.incoming.mu.Lock()
	defer j.incoming.mu.Unlock()
	assert.Empty(t, j.incoming.writers)
}
