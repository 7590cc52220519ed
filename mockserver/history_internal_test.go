package mockserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			i := &feedNode{feedItem: feedItem{record: &Record{}}}
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
	before := parseCursor(f.end().String())
	assert.Equal(t, f.end(), before)
	assert.True(t, f.continues(before))
	f.clear()
	holdsFeed(t, &f, nil, nil)
	assert.False(t, f.continues(before), "what it saw is no longer so")
	assert.True(t, f.continues(f.end()))
	for _, wrong := range []cursor{{}, parseCursor(""), parseCursor("x"), parseCursor("1.2.3"), {f.epoch, f.changes + 1, 0}, {f.epoch, f.changes, f.arrived + 1}, {f.epoch, f.changes, -1}} {
		assert.False(t, f.continues(wrong), "%+v", wrong)
	}
	for _, i := range arrived {
		f.touch(i)
		f.remove(i)
	}
	holdsFeed(t, &f, nil, nil)
}

func holdsFeed(t *testing.T, f *feed, arrived, changed []*feedNode) {
	t.Helper()
	require.Equal(t, len(arrived), f.held())
	for n, i := range arrived {
		require.Same(t, &i.feedItem, f.item(i.order))
		require.True(t, n == 0 || arrived[n-1].order < i.order)
	}
	n := len(changed)
	for i := f.newest; i != nil; i = i.older {
		n--
		require.Same(t, changed[n], i)
		require.True(t, i.older == nil || i.older.change < i.change && i.older.newer == i)
	}
	require.Zero(t, n)
	require.LessOrEqual(t, len(f.items), 2*len(arrived)+1, "what is gone takes no room for long")
}

func TestHistoryFeedsAllThatItHoldsAndNoMore(t *testing.T) {
	h := NewHistory(3)
	now := time.Unix(1_800_000_000, 0)
	for n := range 5 {
		h.Observe(Accepted{Batch: Batch{Source: "s", ReceivedAt: now, Calls: []Call{{ID: fmt.Sprint(n), Source: "s", ReceivedAt: now}}}})
		h.Observe(Rejection{Message: fmt.Sprint(n), ReceivedAt: now, Body: []byte(`{"event":"E","user`)})
	}
	h.Observe(Refusal{At: now})
	h.Observe(Ended{CallID: "0", Source: "s", At: now, Attempt: 1}) // is forgotten
	h.Observe(Ended{CallID: "4", Source: "s", At: now, Attempt: 1, Outcome: Outcome{State: StateDelivered}})
	var seen []string
	end, held := h.end()
	assert.Equal(t, 7, held)
	h.scan(end.order+1, func(i *feedItem) bool {
		switch {
		case i.record != nil:
			seen = append(seen, "call "+i.record.Call.ID)
		case i.rejection != nil:
			seen = append(seen, "rejected "+i.rejection.Message)
			assert.Equal(t, "E", i.call().Event, "as far as it can be read")
		default:
			seen = append(seen, "refused")
		}
		return true
	})
	assert.Equal(t, []string{"refused", "rejected 4", "call 4", "rejected 3", "call 3", "rejected 2", "call 2"}, seen)
	assert.Equal(t, "4", h.feed.newest.record.Call.ID)
	assert.Equal(t, []tallySecond{{now.Unix(), [tallyKinds]int{tallyAccepted: 5, tallyRejected: 6, tallyRetried: 1, tallyDelivered: 1}}}, h.tally.since(0, now.Unix()))
	h.Clear()
	assert.Zero(t, h.feed.held())
}

// TestScannersDoNotFillTheList: they ask for what is not there, all day long.
func TestScannersDoNotFillTheList(t *testing.T) {
	h := NewHistory(0)
	now := time.Unix(1_800_000_000, 0)
	known := func(path string) {
		h.Observe(Refusal{At: now, Method: "POST", Path: path, Source: "web", Code: CodeInvalidJSON})
	}
	known("/first")
	h.Observe(Refusal{At: now, Method: "GET", Path: "/", Code: CodeWrongMethod})
	for n := range 3 * 60 {
		h.Observe(Refusal{At: now, Method: "GET", Path: fmt.Sprintf("/wp-%d", n), Code: CodeNotFound})
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
		h.Observe(Refusal{At: now, Method: "GET", Path: "/", Code: CodeNotFound})
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
	assert.Equal(t, []tallySecond{
		{at(1).Unix(), [tallyKinds]int{tallyAccepted: 2, tallyFailed: 3}},
		{at(tallySeconds).Unix(), [tallyKinds]int{tallyAccepted: 4}},
	}, got)
	assert.Len(t, c.since(at(2).Unix(), at(tallySeconds).Unix()), 1)
}
