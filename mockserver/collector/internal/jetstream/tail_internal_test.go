package jetstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// TestReadingEndsWithItsContext reads a missing stream. It also waits for a ledger that does not
// advance.
func TestReadingEndsWithItsContext(t *testing.T) {
	j, err := Open(t.Context(), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	_, err = j.Attach(t.Context(), "crm", nil)
	require.NoError(t, err)
	enough := errors.New("canceled by the test")
	ctx, cancel := context.WithCancelCause(t.Context())

	missing := j.Tail("MISSING", 1, nil)
	time.AfterFunc(250*time.Millisecond, func() { cancel(enough) }) // reading is retried ten times a second
	assert.ErrorIs(t, missing.Scan(ctx), enough)

	stuck := &Journal{Store: &store.Store{Log: j.Log, Names: j.Names, JS: j.JS}, options: j.options, ledger: ledger.New()}
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	assert.ErrorIs(t, stuck.catchUp(ctx), enough)
}
