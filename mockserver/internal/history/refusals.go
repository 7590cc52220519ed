package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

const (
	// keptRefusals is how many refusals a History keeps of requests with a known
	// write key, and keptStrangers how many of others.
	keptRefusals  = 1000
	keptStrangers = 10
	// strangersTogether is for how long refusals of strangers are put together.
	strangersTogether = time.Minute
)

func (h *History) addRefusal(r event.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.add(r.At, tallyRejected, 1)
	r.Count = max(r.Count, 1)
	if r.Source != "" {
		h.feed.addRefusal(&h.feed.refused, keptRefusals, r)
	} else if i := h.feed.stranger(r); i != nil {
		r.Count += i.Refusal.Count
		i.Refusal = &r // the old one may have been copied
		h.feed.touch(i)
	} else {
		h.feed.addRefusal(&h.feed.strangers, keptStrangers, r)
	}
	h.wake()
}

// addRefusal puts a refusal on top, and forgets the oldest of its kind beyond most.
func (f *Feed) addRefusal(kind *[]*feedNode, most int, r event.Refusal) {
	if len(*kind) == most {
		f.removeOldest(kind)
	}
	f.add(&feedNode{Item: Item{Refusal: &r}, since: r.At})
}

// stranger returns the item that a refusal without a known write key is put to, or
// nil.
func (f *Feed) stranger(r event.Refusal) *feedNode {
	for _, i := range slices.Backward(f.strangers) {
		if i.Refusal.Code == r.Code && r.At.Sub(i.since) < strangersTogether {
			return i
		}
	}
	return nil
}

// Refusals returns the newest requests that were refused, oldest first.
func (h *History) Refusals() []event.Refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	items := slices.Concat(h.feed.refused, h.feed.strangers)
	slices.SortFunc(items, func(a, b *feedNode) int { return cmp.Compare(a.Order, b.Order) })
	all := make([]event.Refusal, 0, len(items))
	for _, i := range items {
		all = append(all, *i.Refusal)
	}
	return all
}
