package webhook

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeoutUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts timeouts
		first := ts.begin(t.Context(), time.Second)
		time.Sleep(900 * time.Millisecond)
		ts.end(first)
		time.Sleep(time.Hour) // its time does not pass while it waits
		again := ts.begin(t.Context(), time.Second)
		if again != first {
			t.Error("another timeout was made")
		}
		time.Sleep(999 * time.Millisecond)
		if err := again.Err(); err != nil {
			t.Errorf("it ended before its time: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := again.Err(); err != context.DeadlineExceeded {
			t.Errorf("after its time it says %v", err)
		}
		ts.end(again)
		if next := ts.begin(t.Context(), time.Second); next == again || next.Err() != nil {
			t.Error("one that has ended was used again")
		} else {
			ts.end(next)
		}
		ts.close()
	})
}

// notComparable is a context that panics where it is compared.
type notComparable struct {
	context.Context
	_ []int
}

func TestTimeoutEndsWithItsParent(t *testing.T) {
	type key struct{}
	cancelled := errors.New("enough")
	for name, wrap := range map[string]func(context.Context) context.Context{
		"plain":          func(ctx context.Context) context.Context { return ctx },
		"with a value":   func(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, 1) },
		"not comparable": func(ctx context.Context) context.Context { return notComparable{Context: ctx} },
	} {
		t.Run(name, func(t *testing.T) {
			var ts timeouts
			defer ts.close()
			spare := ts.begin(t.Context(), time.Hour)
			ts.end(spare)
			parent, cancel := context.WithCancelCause(t.Context())
			parent = wrap(parent)
			begun := ts.begin(parent, time.Hour)
			if begun == spare || begun.Value(key{}) != parent.Value(key{}) {
				t.Error("it is one of another parent")
			}
			cancel(cancelled)
			<-begun.Done()
			if err := begun.Err(); err != context.Canceled {
				t.Errorf("it says %v", err)
			}
			ts.end(begun)
			if late := ts.begin(parent, time.Hour); late.Err() != context.Canceled {
				t.Errorf("one that begins after its parent's end says %v", late.Err())
			}
		})
	}
}

func TestTimeoutsClose(t *testing.T) {
	var ts timeouts
	waiting, out := ts.begin(t.Context(), time.Hour), ts.begin(t.Context(), time.Hour)
	ts.end(waiting)
	ts.close()
	if waiting.Err() == nil {
		t.Error("one that waited goes on")
	}
	if out.Err() != nil {
		t.Error("one that is in use has ended")
	}
	ts.end(out)
	if out.Err() == nil {
		t.Error("one that was given back afterwards goes on")
	}
}

func TestTimeoutsConcurrentSafe(t *testing.T) {
	var ts timeouts
	defer ts.close()
	var wg sync.WaitGroup
	for i := range 16 {
		parent, cancel := t.Context(), context.CancelFunc(func() {})
		if i%4 == 0 {
			parent, cancel = context.WithCancel(parent)
		}
		wg.Go(func() {
			defer cancel()
			for range 500 {
				d := time.Hour
				if i%5 == 0 {
					d = time.Nanosecond
				}
				out := ts.begin(parent, d)
				if d == time.Hour && out.Err() != nil {
					t.Error("it ended before its time")
				}
				ts.end(out)
			}
		})
	}
	wg.Wait()
}
