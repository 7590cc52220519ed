package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWaitForGoroutines(t *testing.T) {
	var g goroutines
	began, finish, ended := make(chan struct{}), make(chan struct{}), false
	require.True(t, g.Go(func() {
		close(began)
		<-finish
		ended = true
	}))
	<-began
	time.AfterFunc(10*time.Millisecond, func() { close(finish) })
	g.Wait()
	assert.True(t, ended)
	assert.False(t, g.Go(func() { t.Error("a goroutine begins after Wait") }))
}
