package jetstream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestFailedCallsWithLongReasonsAreListed checks long reasons, because they are stored in a header
// of limited size.
func TestFailedCallsWithLongReasonsAreListed(t *testing.T) {
	j := open(t, jetstream.Options{Dir: t.TempDir()})
	r := attach(t, j, "crm")
	calls := appendCalls(t, j, "web", strings.Repeat("i", 90), 128)
	ctx, cancel := contextUntil(t, time.Now().Add(patience))
	defer cancel()
	l, err := r.Next(ctx, journal.Want{})
	require.NoError(t, err)
	result := all(l.Entry(), tracking.StateFailed)
	for i := range result.Outcomes {
		result.Outcomes[i].Reason = fmt.Sprintf("reason %d: %s", i, strings.Repeat("\x00é", 500))
	}
	require.NoError(t, l.Finish(ctx, result))

	var listed []string
	require.NoError(t, j.Failed(ctx, "crm", func(f journal.FailedCall) bool {
		assert.True(t, strings.HasPrefix(f.Reason, fmt.Sprintf("reason %d: ", len(listed))), f.Reason)
		listed = append(listed, f.Call.ID)
		return true
	}))
	assert.Len(t, listed, len(calls))
	verified(t, j, "crm")
}
