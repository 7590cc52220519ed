package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnderwayWaitsForWhatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u Underway
		require.NoError(t, u.Await(t.Context(), "a"), "nothing goes on")
		endA, endB := u.Begin("a"), u.Begin("b")
		awaited := make(chan error, 1)
		go func() { awaited <- u.Await(t.Context(), "a") }()
		synctest.Wait()
		require.Empty(t, awaited)
		endLater := u.Begin("a")
		endA()
		require.NoError(t, <-awaited, "what begins later, or is another's, is not waited for")

		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		assert.ErrorIs(t, u.Await(ctx, "b"), why)
		endB()
		endLater()
		assert.NoError(t, u.Await(t.Context(), "b"))
	})
}
