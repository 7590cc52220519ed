package delivery

import (
	"cmp"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// maxJoined is the maximum number of IDs of merged users without pending calls.
const maxJoined = 100_000

// joinedBy returns the keys of the two IDs that an alias call links.
func joinedBy(c *tracking.Call) (pair [2]event.Key, ok bool) {
	user := userOf(c)
	if c.Type != "alias" || user == "" || c.PreviousID == "" || c.PreviousID == user {
		return pair, false
	}
	return [2]event.Key{keyOfUser(user), keyOfUser(c.PreviousID)}, true
}

// join merges two queues.
func (qs *userQueues) join(a, b *userQueue) *userQueue {
	if a == b {
		return a
	}
	if len(a.calls)+len(a.users) < len(b.calls)+len(b.users) {
		a, b = b, a
	}
	for _, q := range []*userQueue{a, b} {
		if len(q.users) == 1 {
			qs.joined = append(qs.joined, q.users[0])
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
	qs.forget(a)
	return a
}

// forget splits the oldest merged queues without calls while there are more than maxJoined
// IDs. It does not split the queue but.
func (qs *userQueues) forget(but *userQueue) {
	for excess := len(qs.joined) - maxJoined; excess > 0; excess-- {
		user := qs.joined[0]
		qs.joined = qs.joined[1:]
		q := qs.byUser[user]
		if q == nil {
			continue
		}
		if len(q.calls) > 0 || q == but {
			qs.joined = append(qs.joined, user)
			continue
		}
		for _, user := range q.users {
			delete(qs.byUser, user)
		}
	}
}
