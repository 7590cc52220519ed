package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInFlightWaitsForRunningOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u InFlight
		require.NoError(t, u.Wait(t.Context(), "a"), "no operation is running")
		endA, endB := u.Begin("a"), u.Begin("b")
		awaited := make(chan error, 1)
		go func() { awaited <- u.Wait(t.Context(), "a") }()
		synctest.Wait()
		require.Empty(t, awaited)
		endLater := u.Begin("a")
		endA()
		require.NoError(t, <-awaited, "later operations and operations with another name do not count")

		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		assert.ErrorIs(t, u.Wait(ctx, "b"), why)
		endB()
		endLater()
		assert.NoError(t, u.Wait(t.Context(), "b"))
	})
}
