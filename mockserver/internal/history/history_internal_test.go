package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestFeedAgainstModel does at random what a History does to its feed, and holds
// both of its orders against plain slices.
func TestFeedAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := newFeed()
	var arrived, changed []*feedNode // oldest first
	without := func(items []*feedNode, i *feedNode) []*feedNode {
		return slices.DeleteFunc(slices.Clone(items), func(other *feedNode) bool { return other == i })
	}
	for step := range 5000 {
		switch n := random.IntN(10); {
		case n < 5 || len(arrived) == 0:
			i := &feedNode{Item: Item{Record: &tracking.Record{}}}
			f.add(i)
			arrived, changed = append(arrived, i), append(changed, i)
		case n < 8:
			i := arrived[random.IntN(len(arrived))]
			f.touch(i)
			changed = append(without(changed, i), i)
		default:
			i := arrived[random.IntN(min(len(arrived), 1+random.IntN(20)))]
			f.remove(i)
			f.remove(i)
			f.touch(i) // is gone
			arrived, changed = without(arrived, i), without(changed, i)
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
	assert.False(t, f.Continues(before), "what it saw is no longer so")
	assert.True(t, f.Continues(f.End()))
	for _, wrong := range []Cursor{{}, ParseCursor(""), ParseCursor("x"), ParseCursor("1.2.3"), {f.epoch, f.changes + 1, 0}, {f.epoch, f.changes, f.arrived + 1}, {f.epoch, f.changes, -1}} {
		assert.False(t, f.Continues(wrong), "%+v", wrong)
	}
	for _, i := range arrived {
		f.touch(i)
		f.remove(i)
	}
	holdsFeed(t, &f, nil, nil)
}

func holdsFeed(t *testing.T, f *Feed, arrived, changed []*feedNode) {
	t.Helper()
	require.Equal(t, len(arrived), f.held())
	for n, i := range arrived {
		require.Same(t, &i.Item, f.Item(i.Order))
		require.True(t, n == 0 || arrived[n-1].Order < i.Order)
	}
	n := len(changed)
	for i := f.newest; i != nil; i = i.older {
		n--
		require.Same(t, changed[n], i)
		require.True(t, i.older == nil || i.older.Change < i.Change && i.older.newer == i)
	}
	require.Zero(t, n)
	require.LessOrEqual(t, len(f.items), 2*len(arrived)+1, "what is gone takes no room for long")
}

func TestHistoryFeedsAllThatItHoldsAndNoMore(t *testing.T) {
	h := New(3)
	now := time.Unix(1_800_000_000, 0)
	for n := range 5 {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", ReceivedAt: now, Calls: []tracking.Call{{ID: fmt.Sprint(n), Source: "s", ReceivedAt: now}}}})
		h.Observe(tracking.Rejection{Message: fmt.Sprint(n), ReceivedAt: now, Body: []byte(`{"event":"E","user`)})
	}
	h.Observe(event.Refusal{At: now})
	h.Observe(tracking.Ended{CallID: "0", Source: "s", At: now, Attempt: 1}) // is forgotten
	h.Observe(tracking.Ended{CallID: "4", Source: "s", At: now, Attempt: 1, Outcome: tracking.Outcome{State: tracking.StateDelivered}})
	var seen []string
	end, held := h.End()
	assert.Equal(t, 7, held)
	h.Scan(end.Order+1, func(i *Item) bool {
		switch {
		case i.Record != nil:
			seen = append(seen, "call "+i.Record.Call.ID)
		case i.Rejection != nil:
			seen = append(seen, "rejected "+i.Rejection.Message)
			assert.Equal(t, "E", i.Call().Event, "as far as it can be read")
		default:
			seen = append(seen, "refused")
		}
		return true
	})
	assert.Equal(t, []string{"refused", "rejected 4", "call 4", "rejected 3", "call 3", "rejected 2", "call 2"}, seen)
	assert.Equal(t, "4", h.feed.newest.Record.Call.ID)
	assert.Equal(t, []Second{{now.Unix(), [TallyKinds]int{tallyAccepted: 5, tallyRejected: 6, tallyRetried: 1, tallyDelivered: 1}}}, h.tally.since(0, now.Unix()))
	h.Clear()
	assert.Zero(t, h.feed.held())
}

// TestScannersDoNotFillTheList: they ask for what is not there, all day long.
func TestScannersDoNotFillTheList(t *testing.T) {
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
	assert.Equal(t, 6, h.feed.held())
	for range 100 * keptStrangers {
		h.Observe(event.Refusal{At: now, Method: "GET", Path: "/", Code: tracking.CodeNotFound})
		now = now.Add(strangersTogether)
	}
	assert.Len(t, h.Refusals(), 2+keptStrangers, "those with a known write key stay")
	assert.Equal(t, 2+keptStrangers, h.feed.held())
}

func TestTallyForgetsWhatIsLongAgo(t *testing.T) {
	var c tally
	at := func(second int64) time.Time { return time.Unix(1_800_000_000+second, 0) }
	c.add(at(0), tallyAccepted, 1)
	c.add(at(1), tallyAccepted, 2)
	c.add(at(1), tallyFailed, 3)
	c.add(at(tallySeconds), tallyAccepted, 4) // takes the place of the first
	c.add(at(0), tallyAccepted, 5)            // too late
	got := c.since(0, at(tallySeconds).Unix())
	assert.Equal(t, []Second{
		{at(1).Unix(), [TallyKinds]int{tallyAccepted: 2, tallyFailed: 3}},
		{at(tallySeconds).Unix(), [TallyKinds]int{tallyAccepted: 4}},
	}, got)
	assert.Len(t, c.since(at(2).Unix(), at(tallySeconds).Unix()), 1)
}
