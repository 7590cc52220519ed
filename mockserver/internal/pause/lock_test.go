package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLockContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		assert.NoError(t, l.LockContext(ctx))
		assert.ErrorIs(t, l.LockContext(ctx), why)
		l.Unlock()
		assert.NoError(t, l.LockContext(t.Context()))
	})
}
