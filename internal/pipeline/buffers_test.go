package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBudgetWakesAtTheLowLevel(t *testing.T) {
	b := budget{max: 1600, low: 1300, used: 1600}
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
	b.release(299)
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
