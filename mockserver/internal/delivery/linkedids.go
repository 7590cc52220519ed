package delivery

import (
	"cmp"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// maxLinkedIDs is the maximum number of linked IDs of users without pending calls.
const maxLinkedIDs = 100_000

// linkedIDs returns the keys of the two IDs that an alias call links.
func linkedIDs(c *tracking.Call) (pair [2]event.Key, ok bool) {
	user := userOf(c)
	if c.Type != "alias" || user == "" || c.PreviousID == "" || c.PreviousID == user {
		return pair, false
	}
	return [2]event.Key{keyOfUser(user), keyOfUser(c.PreviousID)}, true
}

// merge merges two queues.
func (qs *userQueues) merge(a, b *userQueue) *userQueue {
	if a == b {
		return a
	}
	if len(a.calls)+len(a.users) < len(b.calls)+len(b.users) {
		a, b = b, a
	}
	for _, q := range []*userQueue{a, b} {
		if len(q.users) == 1 {
			qs.merged = append(qs.merged, q.users[0])
		}
		q.wakeAll()
	}
	for _, user := range b.users {
		qs.byUser[user] = a
	}
	a.users = append(a.users, b.users...)
	a.attempted = cmp.Or(a.attempted, b.attempted)
	if len(b.calls) > 0 {
		a.calls = append(a.calls, b.calls...)
		slices.SortFunc(a.calls, func(x, y queuedCall) int { return cmp.Compare(x.position, y.position) })
	}
	qs.splitOldest(a)
	return a
}

// splitOldest splits the oldest merged queues without calls while there are more than
// maxLinkedIDs IDs. It does not split the queue keep.
func (qs *userQueues) splitOldest(keep *userQueue) {
	for excess := len(qs.merged) - maxLinkedIDs; excess > 0; excess-- {
		user := qs.merged[0]
		qs.merged = qs.merged[1:]
		q := qs.byUser[user]
		if q == nil {
			continue
		}
		if len(q.calls) > 0 || q == keep {
			qs.merged = append(qs.merged, user)
			continue
		}
		for _, user := range q.users {
			delete(qs.byUser, user)
		}
	}
}
