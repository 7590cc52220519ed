package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		assert.NoError(t, For(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(began))

		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		assert.ErrorIs(t, For(ctx, time.Hour), why)
		assert.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
}
