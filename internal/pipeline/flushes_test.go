package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func isDone(f *flush) bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// A flush waits for all previous calls. The calls may finish in any order.
func TestFlushWaitsForEarlierCalls(t *testing.T) {
	var w flushes
	none := w.start(0, 0)
	require.True(t, isDone(none))
	first := w.start(5, 5)
	second := w.start(8, 8)
	w.ended(4, 3) // calls 4 and 5 were accepted before the first flush
	require.Equal(t, int64(3), first.left)
	require.Equal(t, int64(5), second.left)
	w.ended(1, 3)
	require.True(t, isDone(first))
	require.False(t, isDone(second))
	w.ended(9, 4)
	require.Equal(t, int64(2), second.left)
	w.ended(7, 2)
	require.True(t, isDone(second))
	require.Empty(t, w.waiting)
}

func TestFlushReportsDropsOnce(t *testing.T) {
	var w flushes
	cause := errors.New("refused")
	w.failure = cause
	f := w.start(1, 1)
	w.cancel(f)
	require.Empty(t, w.waiting)
	dropped := Drops{Refused: 3}
	err := w.outcome(f, dropped, context.Canceled, true)
	require.Equal(t, &Undelivered{Dropped: dropped, Pending: 1, Err: context.Canceled, Cause: cause, Spooled: true}, err)
	w.report(dropped)
	require.Nil(t, w.outcome(w.start(1, 0), dropped, nil, false))
	dropped.Attempts = 1
	require.Equal(t, &Undelivered{Dropped: Drops{Attempts: 1}}, w.outcome(w.start(1, 0), dropped, nil, false))
}
