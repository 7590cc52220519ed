package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestFeedAgainstModel applies random operations to a feed, and compares both orders of its items
// with slices.
func TestFeedAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := newFeed(100)
	f.arrived = 10_000
	var arrived, changed []*entry // oldest first
	without := func(entries []*entry, e *entry) []*entry {
		return slices.DeleteFunc(slices.Clone(entries), func(other *entry) bool { return other == e })
	}
	for step := range 5000 {
		switch n := random.IntN(10); {
		case n < 5 || len(arrived) == 0:
			e := &entry{size: 1}
			if n == 0 { // as a call of an earlier run
				e.Order = f.free(1 + random.Int64N(100))
			}
			f.add(&f.rings[random.IntN(kinds)], e)
			at, taken := slices.BinarySearchFunc(arrived, e.Order, func(e *entry, order int64) int { return cmp.Compare(e.Order, order) })
			require.False(t, taken)
			arrived, changed = slices.Insert(arrived, at, e), append(changed, e)
		case n < 8:
			e := arrived[random.IntN(len(arrived))]
			f.touch(e)
			changed = append(without(changed, e), e)
		default:
			if r := &f.rings[random.IntN(kinds)]; len(r.entries) > 0 {
				e := f.removeOldest(r)
				assert.EqualValues(t, len(r.entries), r.bytes)
				arrived, changed = without(arrived, e), without(changed, e)
			}
		}
		if step%50 == 0 {
			holdsFeed(t, &f, arrived, changed)
		}
	}
	before := ParseCursor(f.End().String())
	assert.Equal(t, f.End(), before)
	assert.True(t, f.Continues(before))
	f.clear()
	holdsFeed(t, &f, nil, nil)
	assert.False(t, f.Continues(before), "the feed was cleared")
	assert.True(t, f.Continues(f.End()))
	for _, wrong := range []Cursor{{}, ParseCursor(""), ParseCursor("x"), ParseCursor("1.2.3"), {f.epoch, f.changes + 1, 0}, {f.epoch, f.changes, f.arrived + 1}, {f.epoch, f.changes, -1}} {
		assert.False(t, f.Continues(wrong), "%+v", wrong)
	}
}

func holdsFeed(t *testing.T, f *Feed, arrived, changed []*entry) {
	t.Helper()
	require.Equal(t, len(arrived), f.len())
	for _, e := range arrived {
		require.Same(t, &e.Item, f.Item(e.Order))
	}
	backward := slices.Collect(f.backward(kinds, f.arrived+1))
	slices.Reverse(backward)
	require.Equal(t, arrived, backward)
	n := len(changed)
	for i := range f.Since(Cursor{}) {
		n--
		require.Same(t, &changed[n].Item, i)
	}
	require.Zero(t, n)
}

func TestFeedContainsAllItems(t *testing.T) {
	h := New(3)
	now := time.Unix(1_800_000_000, 0)
	for n := range 5 {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", ReceivedAt: now, Calls: []tracking.Call{{ID: fmt.Sprint(n), Source: "s", ReceivedAt: now}}}})
		h.Observe(tracking.Rejection{Message: fmt.Sprint(n), ReceivedAt: now, Body: []byte(`{"event":"E","user`)})
	}
	h.Observe(event.Refusal{At: now})
	h.Observe(tracking.Ended{CallID: "0", Source: "s", At: now, Attempt: 1}) // the call expires
	h.Observe(tracking.Ended{CallID: "4", Source: "s", At: now, Attempt: 1, Outcome: tracking.Outcome{State: tracking.StateDelivered}})
	var seen []string
	end, count := h.End()
	assert.Equal(t, 7, count)
	h.Scan(end.Order+1, func(i *Item) bool {
		switch {
		case i.Record != nil:
			seen = append(seen, "call "+i.Record.Call.ID)
		case i.Rejection != nil:
			seen = append(seen, "rejected "+i.Rejection.Message)
			assert.Equal(t, "E", i.Call().Event, "the readable part")
		default:
			seen = append(seen, "refused")
		}
		return true
	})
	assert.Equal(t, []string{"refused", "rejected 4", "call 4", "rejected 3", "call 3", "rejected 2", "call 2"}, seen)
	assert.Equal(t, "4", h.feed.newest.Record.Call.ID)
	assert.Equal(t, []Interval{{now.Unix(), [TallyKinds]int{tallyAccepted: 5, tallyRejected: 6, tallyRetried: 1, tallyDelivered: 1}}}, h.Seconds(0, now.Unix()))
	h.Clear()
	assert.Zero(t, h.feed.len())
}

// TestAnonymousRefusalsAreMerged sends many requests without a write key, like a scanner.
func TestAnonymousRefusalsAreMerged(t *testing.T) {
	h := New(0)
	now := time.Unix(1_800_000_000, 0)
	known := func(path string) {
		h.Observe(event.Refusal{At: now, Method: "POST", Path: path, Source: "web", Code: tracking.CodeInvalidJSON})
	}
	known("/first")
	h.Observe(event.Refusal{At: now, Method: "GET", Path: "/", Code: tracking.CodeWrongMethod})
	for n := range 3 * 60 {
		h.Observe(event.Refusal{At: now, Method: "GET", Path: fmt.Sprintf("/wp-%d", n), Code: tracking.CodeNotFound})
		now = now.Add(time.Second)
	}
	known("/last")
	var shown []string
	for _, r := range h.Refusals() {
		shown = append(shown, fmt.Sprintf("%s %s %d", r.Method, r.Path, r.Count))
	}
	assert.Equal(t, []string{"POST /first 1", "GET / 1", "GET /wp-59 60", "GET /wp-119 60", "GET /wp-179 60", "POST /last 1"}, shown)
	assert.Equal(t, 6, h.feed.len())
	for range 100 * maxAnonymous {
		h.Observe(event.Refusal{At: now, Method: "GET", Path: "/", Code: tracking.CodeNotFound})
		now = now.Add(mergeInterval)
	}
	assert.Len(t, h.Refusals(), 2+maxAnonymous, "refusals with a known write key are retained")
	assert.Equal(t, 2+maxAnonymous, h.feed.len())
}

func TestTallyDropsOldSeconds(t *testing.T) {
	var c tally
	at := func(second int64) time.Time { return time.Unix(1_800_000_000+second, 0) }
	c.add(at(0), tallyAccepted, 1)
	c.add(at(1), tallyAccepted, 2)
	c.add(at(1), tallyFailed, 3)
	c.add(at(tallySeconds), tallyAccepted, 4) // replaces the counts of the first second
	c.add(at(0), tallyAccepted, 5)            // ignored, because a later second uses the slot
	got := since(c.seconds[:], 1, 0, at(tallySeconds).Unix())
	assert.Equal(t, []Interval{
		{at(1).Unix(), [TallyKinds]int{tallyAccepted: 2, tallyFailed: 3}},
		{at(tallySeconds).Unix(), [TallyKinds]int{tallyAccepted: 4}},
	}, got)
	assert.Len(t, since(c.seconds[:], 1, at(2).Unix(), at(tallySeconds).Unix()), 1)
}

func TestTallyCountsMinutes(t *testing.T) {
	h := New(0)
	start := time.Unix(1_800_000_000, 0).Truncate(time.Minute)
	for _, after := range []time.Duration{0, 59 * time.Second, time.Minute, 23 * time.Hour, 24*time.Hour + 61*time.Second} {
		h.Observe(tracking.Rejection{ReceivedAt: start.Add(after)})
	}
	at := func(after time.Duration, n int) Interval {
		return Interval{start.Add(after).Unix(), [TallyKinds]int{tallyRejected: n}}
	}
	assert.Equal(t, []Interval{at(23*time.Hour, 1), at(24*time.Hour+time.Minute, 1)}, h.Minutes(0, start.Add(24*time.Hour+90*time.Second).Unix()))
	assert.Equal(t, []Interval{at(23*time.Hour, 1)}, h.Minutes(start.Add(23*time.Hour+30*time.Second).Unix(), start.Add(24*time.Hour).Unix()))
	earlier := New(0)
	earlier.Observe(tracking.Rejection{ReceivedAt: start})
	earlier.Observe(tracking.Rejection{ReceivedAt: start.Add(59 * time.Second)})
	assert.Equal(t, []Interval{at(0, 2)}, earlier.Minutes(start.Unix(), start.Unix()))
}

func TestOutcomeBeforeAcceptance(t *testing.T) {
	h := New(3)
	call := func(i int) tracking.Call { return tracking.Call{Source: "s", ID: fmt.Sprint(i)} }
	ended := func(i int) tracking.Ended {
		return tracking.Ended{Source: "s", CallID: fmt.Sprint(i), Destination: "d", At: time.Now(), Outcome: tracking.Outcome{State: tracking.StateDelivered}}
	}
	for i := range 2000 {
		h.Observe(ended(i)) // outcomes of calls that are never accepted
	}
	for i := 3000; i < 3005; i++ {
		h.Observe(tracking.Attempt{Source: "s", CallID: fmt.Sprint(i), Destination: "d"})
		h.Observe(ended(i))
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{call(i)}}})
	}
	records := h.Records(nil)
	assert.Len(t, records, 3)
	for _, r := range records {
		state, decided := r.State("d")
		assert.True(t, decided)
		assert.Equal(t, tracking.StateDelivered, state.State)
		assert.Len(t, r.Attempts, 1)
	}
	assert.EqualValues(t, 2, h.Expired())
	page, more := h.Page(0, 2, nil)
	assert.True(t, more)
	assert.Equal(t, []int64{5, 4}, []int64{page[0].Seq, page[1].Seq})
	page, more = h.Page(4, 2, nil)
	assert.False(t, more)
	assert.EqualValues(t, 3, page[0].Seq)
}

func TestByteLimit(t *testing.T) {
	h := New(0)
	h.LimitBytes(8 << 20)
	before := heap()
	large := strings.Repeat("x", 8<<10)
	const n = 5_000
	for i := range n {
		id := fmt.Sprint(i)
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: id, Body: []byte(`{"a":"` + large + `"}`)}}}})
		for attempt := range 3 {
			h.Observe(tracking.Attempt{Source: "s", CallID: id, Destination: "d", Attempt: webhook.Attempt{RequestBody: []byte(large), ResponseBody: []byte("no")}})
			h.Observe(tracking.Ended{Source: "s", CallID: id, Destination: "d", Attempt: attempt})
		}
		h.Observe(tracking.Rejection{Source: "s", Body: []byte(large)})
	}
	assert.Less(t, heap()-before, int64(16<<20))
	records := h.Records(nil)
	assert.EqualValues(t, n-len(records), h.Expired())
	assert.Greater(t, len(records), 200, "of about 21 KB each with its attempts")
	assert.Less(t, len(records), 500)
	assert.Equal(t, fmt.Sprint(n-1), records[len(records)-1].Call.ID, "the newest are retained")
	assert.Len(t, records[0].Attempts, 3)
	rejections, _ := h.Rejections()
	assert.Less(t, len(rejections), 200)
	runtime.KeepAlive(h)
}

// TestByteLimitDuringRetries retries calls while no new calls arrive, and retries expired
// calls.
func TestByteLimitDuringRetries(t *testing.T) {
	large := strings.Repeat("x", 4<<10)
	for name, attempt := range map[string]func() webhook.Attempt{
		"bodies": func() webhook.Attempt { return webhook.Attempt{ResponseBody: []byte(large)} },
		"headers": func() webhook.Attempt {
			return webhook.Attempt{ResponseHeader: http.Header{"A": {strings.Clone(large)}}}
		},
		"errors": func() webhook.Attempt { return webhook.Attempt{Error: strings.Clone(large)} },
	} {
		t.Run(name, func(t *testing.T) {
			h := New(0)
			h.LimitBytes(4 << 20)
			const calls, attempts = 1_100, 8 // more calls than early entries
			for i := range calls {
				h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: fmt.Sprint(i), Body: []byte("{}")}}}})
			}
			before := heap()
			for range attempts {
				for i := range calls {
					h.Observe(tracking.Attempt{Source: "s", CallID: fmt.Sprint(i), Destination: "d", Attempt: attempt()})
					h.Observe(tracking.Ended{Source: "s", CallID: fmt.Sprint(i), Destination: "d"})
				}
			}
			assert.Less(t, heap()-before, int64(16<<20))
			records := h.Records(nil)
			assert.NotEmpty(t, records)
			assert.EqualValues(t, calls-len(records), h.Expired())
			runtime.KeepAlive(h)
		})
	}
}

// TestExpiredCallsDoNotReappear also covers an older call that was observed late and is still
// retained.
func TestExpiredCallsDoNotReappear(t *testing.T) {
	h := New(3)
	h.RecordUnknown(func(*tracking.Call) {})
	start := time.Now()
	call := func(id string, second int) tracking.Call {
		return tracking.Call{Source: "s", ID: id, ReceivedAt: start.Add(time.Duration(second) * time.Second)}
	}
	accept := func(c tracking.Call) {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{c}}})
	}
	try := func(c tracking.Call) {
		h.Observe(tracking.Attempt{Source: "s", CallID: c.ID, Destination: "d", Call: &c})
		h.Observe(tracking.Ended{Source: "s", CallID: c.ID, Destination: "d", Attempt: 2, Call: &c})
	}
	accept(call("a", 10))
	accept(call("b", 11))
	try(call("from before", 0))
	accept(call("c", 12))
	accept(call("d", 13)) // a and b have expired
	try(call("a", 10))
	try(call("b", 11))
	var ids []string
	for _, r := range h.Records(nil) {
		ids = append(ids, r.Call.ID)
	}
	assert.Equal(t, []string{"from before", "c", "d"}, ids)
	assert.EqualValues(t, 2, h.Expired())
}

// TestCallsOfEarlierRunsAreInOrderOfReceipt attempts calls of an earlier run in another order, before
// and after new calls arrive.
func TestCallsOfEarlierRunsAreInOrderOfReceipt(t *testing.T) {
	start := time.Now().Truncate(time.Millisecond)
	attempt := func(h *History, id string, second int) {
		c := tracking.Call{Source: "s", ID: id, ReceivedAt: start.Add(time.Duration(second) * time.Second)}
		h.Observe(tracking.Attempt{Source: "s", CallID: id, Destination: "d", Call: &c})
	}
	accept := func(h *History, id string) {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: id, ReceivedAt: time.Now()}}}})
	}
	observe := func(h *History) {
		h.RecordUnknown(func(*tracking.Call) {})
		attempt(h, "6 s ago", -6)
		attempt(h, "8 s ago", -8)
		accept(h, "new")
		h.Observe(tracking.Rejection{ReceivedAt: time.Now()})
		attempt(h, "7 s ago", -7)
		attempt(h, "7 s ago, too", -7)
		accept(h, "newest")
		attempt(h, "9 s ago", -9)
	}
	ids := func(records []tracking.Record) (ids []string) {
		for _, r := range records {
			ids = append(ids, r.Call.ID)
		}
		return ids
	}
	h := New(0)
	observe(h)
	want := []string{"9 s ago", "8 s ago", "7 s ago", "7 s ago, too", "6 s ago", "new", "newest"}
	records := h.Records(nil)
	assert.Equal(t, want, ids(records))
	var scanned []string
	h.Scan(Newest, func(i *Item) bool {
		if i.Record != nil {
			scanned = append(scanned, i.Record.Call.ID)
			assert.Same(t, i, h.feed.Item(i.Order))
		}
		return true
	})
	slices.Reverse(scanned)
	assert.Equal(t, want, scanned)
	for i := range records {
		page, more := h.Page(records[i].Seq, 100, nil)
		slices.Reverse(page)
		assert.False(t, more)
		assert.Equal(t, want[:i], append([]string{}, ids(page)...), "before %s", want[i])
	}

	for limit := 2; limit < len(want); limit++ {
		h = New(limit)
		observe(h)
		assert.Equal(t, want[len(want)-limit:], ids(h.Records(nil)), "the oldest calls expire")
	}
	h = New(0)
	h.LimitBytes(4 * (recordBytes + attemptBytes))
	observe(h)
	assert.Equal(t, want[2:], ids(h.Records(nil)), "the oldest calls expire")
}

// TestSyntheticCallsExpireSeparately adds more synthetic calls than the history retains, like a
// large audience.
func TestSyntheticCallsExpireSeparately(t *testing.T) {
	h := New(10)
	accept := func(typ, id string) {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: id, Type: typ, Body: []byte("{}")}}}})
	}
	for i := range 5 {
		accept("track", fmt.Sprint("sent-", i))
	}
	for i := range 100 {
		accept("identify", fmt.Sprintf("audience-abcdefghijklmnop-1-qrstuvwxyz23%04d", 2222+i%6*1111))
		accept("delete", fmt.Sprint("delete-", i))
		if i == 50 {
			accept("track", "sent-5")
		}
	}
	var ids []string
	var seqs []int64
	for _, r := range h.Records(nil) {
		seqs = append(seqs, r.Seq)
		if r.Call.Type == "track" {
			ids = append(ids, r.Call.ID)
		}
	}
	assert.Equal(t, []string{"sent-0", "sent-1", "sent-2", "sent-3", "sent-4", "sent-5"}, ids)
	assert.Len(t, seqs, 16, "and as many synthetic calls")
	assert.IsIncreasing(t, seqs)
	page, more := h.Page(seqs[10], 8, nil)
	assert.True(t, more)
	for i, r := range page {
		assert.Equal(t, seqs[9-i], r.Seq)
	}
}

// TestRestoredOutcomesComeFirst restores outcomes while new outcomes arrive. Their times may
// contradict the order, because clocks may have been set back.
func TestRestoredOutcomesComeFirst(t *testing.T) {
	h := New(0)
	h.RecordUnknown(func(*tracking.Call) {})
	now := time.Now()
	c := tracking.Call{Source: "s", ID: "m", ReceivedAt: now.Add(-time.Minute)}
	ended := func(at time.Time, attempt int, state tracking.State) tracking.Ended {
		return tracking.Ended{Source: "s", CallID: "m", Destination: "d", At: at, Attempt: attempt, Outcome: tracking.Outcome{State: state}, Call: &c}
	}
	attempt := func(n int) tracking.Attempt {
		return tracking.Attempt{Source: "s", CallID: "m", Destination: "d", Call: &c, Attempt: webhook.Attempt{Number: n, RequestBody: []byte("{}")}}
	}
	h.Observe(attempt(3))
	h.Observe(ended(now, 3, tracking.StateDelivered))
	before, _ := h.Find("s", "m")
	for n := 1; n <= 2; n++ {
		h.Restore(attempt(n))
		h.Restore(ended(now.Add(time.Hour), n, tracking.StatePending))
	}
	r, ok := h.Find("s", "m")
	assert.True(t, ok)
	state, _ := r.State("d")
	assert.Equal(t, tracking.StateDelivered, state.State)
	for i, a := range r.Attempts {
		assert.Equal(t, i+1, a.Number)
		assert.Equal(t, i+1, r.Ends[i].Attempt)
	}
	assert.Len(t, r.Attempts, 3)
	assert.Equal(t, 3, before.Attempts[0].Number, "copies do not change")
}

// heap returns the used memory in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second run empties pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestRejectedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(2)
		start := time.Now()
		for n := range 3 {
			assert.Equal(t, start, h.RejectedSince())
			time.Sleep(time.Minute)
			if n < 2 {
				h.Observe(tracking.Rejection{ReceivedAt: time.Now()})
			}
		}
		h.Observe(tracking.Rejection{ReceivedAt: time.Now()})
		assert.Equal(t, start.Add(time.Minute), h.RejectedSince(), "the first rejection has expired")
	})
}
