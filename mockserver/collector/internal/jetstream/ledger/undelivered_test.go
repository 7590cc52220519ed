package ledger

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

func TestUndelivered(t *testing.T) {
	var u undelivered
	at := time.UnixMilli(1_700_000_000_000)
	sizes, times := map[uint64]int{}, map[uint64]time.Time{}
	seq := uint64(7)
	for i := range 3000 {
		seq += uint64(1 + i%3)
		switch i {
		case 1000:
			seq += 1 << 33 // too far apart for one run
		case 2000:
			at = at.Add(100 * 24 * time.Hour)
		}
		sizes[seq] = 1 + i*37%(record.PartCalls*record.MaxParts)
		times[seq] = at.Add(time.Duration(-i) * time.Millisecond)
		u.add(seq, sizes[seq], times[seq])
	}
	type part struct {
		ref   record.Ref
		calls int
		at    time.Time
	}
	list := func() (all []part) {
		u.All(func(ref record.Ref, calls int, at time.Time) bool {
			all = append(all, part{ref, calls, at})
			return true
		})
		return all
	}
	all := list()
	calls := 0
	for i, p := range all {
		calls += p.calls
		assert.Equal(t, times[p.ref.Seq], p.at)
		if i > 0 {
			assert.Less(t, all[i-1].ref.Number(), p.ref.Number())
		}
	}
	want := 0
	for _, n := range sizes {
		want += n
	}
	assert.Equal(t, want, calls)

	for _, ref := range []record.Ref{{Seq: 7, Part: 0}, {Seq: 1, Part: 0}, {Seq: seq + 1, Part: 0}, {Seq: all[0].ref.Seq, Part: record.MaxParts - 1}} {
		_, ok := u.end(ref)
		assert.False(t, ok, "%v is not there", ref)
	}
	for i, p := range all {
		if i%5 == 4 {
			continue
		}
		n, ok := u.end(p.ref)
		assert.True(t, ok && n == p.calls, "%v has %d calls, and not %d", p.ref, p.calls, n)
		_, ok = u.end(p.ref)
		assert.False(t, ok, "%v has ended", p.ref)
	}
	left := list()
	assert.Len(t, left, len(all)/5)
	for i, p := range left {
		assert.Equal(t, all[5*i+4], p)
		u.end(p.ref)
	}
	assert.Empty(t, u, "all parts have ended")
}

// TestUndeliveredMessagesAreSmall measures memory with messages of one call, which need the most
// memory per call.
func TestUndeliveredMessagesAreSmall(t *testing.T) {
	const first, messages = 1 << 33, 1 << 18
	var u undelivered
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range messages {
		u.add(uint64(first+i), 1, time.UnixMilli(int64(i)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, float64(after.HeapAlloc-before.HeapAlloc)/messages, 16.)
	_, ok := u.end(record.Ref{Seq: first + messages/2})
	assert.True(t, ok)
}
