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

func TestUntil(t *testing.T) {
	for name, test := range map[string]struct {
		at, wake, end time.Duration // 0 means never
		want          time.Duration
	}{
		"a time":     {at: 1, wake: 2, end: 2, want: 1},
		"woken":      {at: 2, wake: 1, end: 2, want: 1},
		"woken only": {wake: 1, end: 2, want: 1},
		"its end":    {at: 2, end: 1, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				began, at, wake := time.Now(), time.Time{}, make(chan struct{})
				time.AfterFunc(test.end, cancel)
				if test.at > 0 {
					at = began.Add(test.at)
				}
				if test.wake > 0 {
					time.AfterFunc(test.wake, func() { close(wake) })
				}
				Until(ctx, at, wake)
				assert.Equal(t, test.want, time.Since(began))
			})
		})
	}
}
