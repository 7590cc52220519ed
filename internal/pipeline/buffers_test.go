package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBudgetWakesWhenAnEighthIsFree(t *testing.T) {
	b := budget{max: 800, used: 800}
	room := b.waitForRoom()
	require.Equal(t, room, b.waitForRoom(), "all wait for the same")
	woken := func() bool {
		select {
		case <-room:
			return true
		default:
			return false
		}
	}
	b.release(99)
	require.False(t, woken())
	b.release(-10) // a negative number increases the memory in use
	b.release(10)
	require.False(t, woken())
	b.release(1)
	require.True(t, woken())
	require.NotEqual(t, room, b.waitForRoom())
}

func TestBuffersAreBounded(t *testing.T) {
	b := buffers{max: 3 * minBuffer}
	require.Nil(t, b.get())
	b.put(make([]byte, 0, minBuffer-1))
	require.Nil(t, b.get(), "small ones are not kept")
	for range 5 {
		b.put(make([]byte, 7, minBuffer))
	}
	for range 3 {
		buf := b.get()
		require.Empty(t, buf)
		require.Equal(t, minBuffer, cap(buf))
	}
	require.Nil(t, b.get())
	require.Zero(t, b.size)
}
