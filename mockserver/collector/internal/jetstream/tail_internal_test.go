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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
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

	stuck := &Journal{Store: &store.Store{Ctx: j.Ctx, Log: j.Log, Names: j.Names, JS: j.JS}, options: j.options, ledger: ledger.NewLive(ledger.New())}
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	assert.ErrorIs(t, stuck.catchUp(ctx), enough)
}

// TestReadingEndsWithItsJournal checks reads without a deadline.
func TestReadingEndsWithItsJournal(t *testing.T) {
	j, err := Open(t.Context(), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("it does not end"))
	defer cancel()
	errs := make(chan error, 3)
	for _, read := range []func(context.Context) error{
		j.Tail("MISSING", 1, nil).Scan,
		func(ctx context.Context) error { return j.ledger.Reached(ctx, 1000, 0) },
		func(ctx context.Context) error { return j.ledger.Reached(ctx, 0, 1000) },
	} {
		go func() { errs <- read(ctx) }()
	}
	time.Sleep(50 * time.Millisecond) // so that some reads have begun; the result does not depend on it
	require.NoError(t, j.Close())
	for range cap(errs) {
		assert.ErrorIs(t, <-errs, journal.ErrClosed)
	}
}
