package jetstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestTroubleWithReadingIsTold has a stream not be readable for half a minute.
func TestTroubleWithReadingIsTold(t *testing.T) {
	var log bytes.Buffer
	j := &store{log: slog.New(slog.NewTextHandler(&log, nil))}
	tell := j.tellTrouble(record.StreamCalls)
	for since := time.Duration(0); since < 35*time.Second; since += 100 * time.Millisecond {
		tell(errors.New("no leader"), since)
	}
	assert.Equal(t, 3, strings.Count(log.String(), "level=WARN"), log.String())
	assert.Contains(t, log.String(), `stream=CALLS for=10s error="no leader"`)
	for since := time.Duration(0); since < 15*time.Second; since += 100 * time.Millisecond {
		tell(errors.New("again"), since)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "error=again"), log.String())

	log.Reset()
	j.health.fall(errors.New("the disk is full"))
	tell(errors.New("no leader"), time.Hour)
	assert.Empty(t, log.String(), "it is known")
}

// TestReadingEndsWithItsContext reads a stream that is not there, and waits for an account
// that does not follow.
func TestReadingEndsWithItsContext(t *testing.T) {
	j, err := Open(t.Context(), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	_, err = j.Attach(t.Context(), "crm", nil)
	require.NoError(t, err)
	enough := errors.New("enough of that")
	ctx, cancel := context.WithCancelCause(t.Context())

	missing := j.tail("MISSING", 1, nil)
	tries := 0
	missing.trouble = func(error, time.Duration) {
		if tries++; tries == 2 {
			cancel(enough)
		}
	}
	assert.ErrorIs(t, missing.scan(ctx), enough)

	stuck := &Journal{store: &store{log: j.log}, options: j.options, account: ledger.New(), calls: j.calls, outcomes: j.outcomes}
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	assert.ErrorIs(t, stuck.catchUp(ctx), enough)
}
