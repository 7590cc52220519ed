package ingest

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestFillDoesNotBlockCalls checks that calls can be added while Fill reads the stored calls, which
// may take long.
func TestFillDoesNotBlockCalls(t *testing.T) {
	d := NewDedup(time.Hour, 100)
	d.Fill(func(yield func(string, iter.Seq[string]) bool) {
		yield("web", slices.Values([]string{"a"}))
		added := make(chan struct{})
		go func() {
			defer close(added)
			d.Add("web", "b")
		}()
		select {
		case <-added:
		case <-time.After(5 * time.Second):
			t.Error("Add waits for Fill")
		}
		yield("web", slices.Values([]string{"c"}))
	})
	for _, id := range []string{"a", "b", "c"} {
		assert.True(t, d.isStored(keyOf("web", id)), id)
	}
}

// TestFillKeepsNewest checks that Fill keeps at least the newer half of the limit, and at most the limit.
func TestFillKeepsNewest(t *testing.T) {
	const limit, message, messages = 1000, 10, 1000
	synctest.Test(t, func(t *testing.T) {
		d := NewDedup(time.Hour, limit)
		d.Fill(func(yield func(string, iter.Seq[string]) bool) {
			for m := range messages {
				yield("web", func(yield func(string) bool) {
					for i := range message {
						yield(fmt.Sprint(m*message + i))
					}
				})
			}
		})
		known := 0
		for i := range messages * message {
			is := d.isStored(keyOf("web", fmt.Sprint(i)))
			if is {
				known++
			}
			if i >= messages*message-limit/2 {
				assert.True(t, is, i)
			}
		}
		assert.LessOrEqual(t, known, limit)
	})
}

// TestKeySet compares a keySet with a map, below and above the expected number of keys.
func TestKeySet(t *testing.T) {
	const full = 3 * segmentKeys
	var s keySet
	want := map[key]bool{}
	key := func(i int) key { return keyOf("web", fmt.Sprint(i)) }
	assert.False(t, s.has(key(0)))
	s.remove(key(0))
	for i := range 3 * full {
		for range 2 {
			s.add(key(i), full)
		}
		want[key(i)] = true
		if i%3 == 0 {
			for range 2 {
				s.remove(key(i / 2))
			}
			delete(want, key(i/2))
		}
		assert.Equal(t, len(want), s.size)
	}
	for i := range 4 * full {
		assert.Equal(t, want[key(i)], s.has(key(i)), i)
	}
}
