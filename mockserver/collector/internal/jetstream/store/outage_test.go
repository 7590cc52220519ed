package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRetryAfterOutage interrupts two of three tries by an outage.
func TestRetryAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tries, began := new(Store), 0, time.Now()
		s.Status.Up()
		require.NoError(t, s.RetryAfterOutage(t.Context(), func(ctx context.Context) error {
			if tries++; tries == 3 {
				return nil
			}
			time.AfterFunc(time.Second, func() { s.Status.Down(errors.New("read-only")) })
			time.AfterFunc(3*time.Second, s.Status.Up)
			<-ctx.Done()
			return ctx.Err()
		}))
		assert.Equal(t, 3, tries)
		assert.Equal(t, 6*time.Second, time.Since(began))
	})
}

// TestRetryAfterOutageTimeLimit checks that the time limit applies to the total of repeated outages.
func TestRetryAfterOutageTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tries, readOnly := new(Store), 0, errors.New("read-only")
		s.Status.Up()
		require.ErrorIs(t, s.RetryAfterOutage(t.Context(), func(ctx context.Context) error {
			tries++
			s.Status.Down(readOnly)
			time.AfterFunc(2*time.Second, s.Status.Up)
			<-ctx.Done()
			return ctx.Err()
		}), readOnly)
		assert.Equal(t, 3, tries)
	})
}

// TestRetryAfterOutageReturnsOtherErrors makes a try fail while the store can be written to. It also cancels
// a caller during an outage.
func TestRetryAfterOutageReturnsOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := new(Store), errors.New("damaged")
		s.Status.Up()
		assert.ErrorIs(t, s.RetryAfterOutage(t.Context(), func(context.Context) error { return other }), other)
		s.Status.Down(errors.New("read-only"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.Error(t, s.RetryAfterOutage(ctx, func(context.Context) error { return nil }))
		assert.Equal(t, time.Second, time.Since(began))
	})
}
