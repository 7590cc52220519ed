package jetstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// An audience is the model of an audience of the destination ads. Its fields are guarded by world.mu,
// except random.
type audience struct {
	random  *rand.Rand
	pool    []string                // user IDs
	lists   map[int]map[string]bool // accepted lists, by the number of the sync
	perhaps []map[string]bool       // lists that may be accepted although the request failed
	begun   int                     // number of the last sync with a notice
	begunAt time.Time               // time of the first notice of that sync
	picture map[string]membership   // of the receiver
	damaged map[string]bool         // users whose stored entry was lost
}

// A membership is the last value that a receiver knows.
type membership struct {
	at     time.Time
	member bool
}

// newAudience returns an audience. Every eighth seed has long lists, which need several segments.
func newAudience(seed uint64) *audience {
	a := &audience{random: rand.New(rand.NewPCG(seed, 2)), lists: map[int]map[string]bool{}, picture: map[string]membership{}, damaged: map[string]bool{}}
	n, padding := 20, ""
	if seed%8 == 0 {
		n, padding = 220, strings.Repeat("x", 1000)
	}
	for i := range n {
		a.pool = append(a.pool, fmt.Sprintf("member%d%s.", i, padding))
	}
	return a
}

// sync sends a random list.
func (w *world) sync() {
	list := w.audience.choose()
	w.background(fmt.Sprintf("sync of %d members", len(list)), func(p *instance) { _ = p.sync(list) }) // faults may prevent it
}

// choose returns a random list.
func (a *audience) choose() map[string]bool {
	list, chance := map[string]bool{}, a.random.IntN(10)
	if len(a.pool) > 100 {
		chance = 6 + chance%4 // so that most lists have two segments
	}
	for _, user := range a.pool {
		if a.random.IntN(10) < chance {
			list[user] = true
		}
	}
	return list
}

// synced returns an error if calls for a list are still to be created.
func (p *instance) synced() error {
	all, err := p.engine.Users().Computations(p.t.Context())
	for _, c := range all {
		if n := len(c.Syncs); n > 0 && c.Syncs[n-1].State != users.SyncDone {
			err = fmt.Errorf("sync %s is %v", c.Syncs[n-1].ID, c.Syncs[n-1].State)
		}
	}
	return err
}

func (p *instance) sync(list map[string]bool) error {
	s, err := p.engine.Users().StartSync(p.t.Context(), users.SyncRequest{
		Kind: users.KindAudience, Name: "Big", Source: "web", Destination: "ads", AllowEmpty: true, List: strings.NewReader(strings.Join(slices.Sorted(maps.Keys(list)), "\n")),
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.audience.perhaps = append(p.audience.perhaps, list)
		return err
	}
	p.audience.lists[s.Number] = list
	return nil
}

// A notice contains the fields of a synthetic call that the model needs.
type audienceNotice struct {
	UserID    string
	Timestamp time.Time
	Traits    struct{ Big bool }
	Context   struct{ Audience struct{ Sync int } }
}

func decodeNotice(id string, body []byte) (n audienceNotice, ok bool) {
	return n, strings.HasPrefix(id, "audience-") && json.Unmarshal(body, &n) == nil
}

// begin checks that a notice does not contradict the later lists. While requests to NATS fail, a
// collector may not know the later lists. The lock is held.
func (a *audience) begin(r *receiver, id string, body []byte) {
	n, ok := decodeNotice(id, body)
	if !ok {
		return
	}
	sync := n.Context.Audience.Sync
	r.noteLocked("%s has the notice: sync %d, %.12s %v", id, sync, n.UserID, n.Traits.Big)
	if sync > a.begun {
		a.begun, a.begunAt = sync, time.Now()
	}
	_, known := a.lists[a.begun]
	isCertain := r.calm && time.Since(r.calmAt) > residue && known && len(a.damaged) == 0 && time.Since(a.begunAt) > time.Second
	if isCertain && sync < a.begun && !a.confirms(n) {
		r.problem("%s of sync %d contradicts sync %d", id, sync, a.begun)
	}
}

// confirms reports whether a notice agrees with the newest list with notices, or with a list that may
// be later. The lock is held.
func (a *audience) confirms(n audienceNotice) bool {
	for _, list := range a.perhaps {
		if list[n.UserID] == n.Traits.Big {
			return true
		}
	}
	for number, list := range a.lists {
		if number >= a.begun && list[n.UserID] == n.Traits.Big {
			return true
		}
	}
	return false
}

// accept updates the receiver's picture. The lock is held.
func (a *audience) accept(_ *receiver, id string, body []byte) {
	if n, ok := decodeNotice(id, body); ok && n.Timestamp.After(a.picture[n.UserID].at) {
		a.picture[n.UserID] = membership{n.Timestamp, n.Traits.Big}
	}
}

// check compares the picture with the last list. The lock is held.
func (a *audience) check(w *world) {
	last := a.lists[slices.Max(slices.Collect(maps.Keys(a.lists)))]
	for _, user := range a.pool {
		if have := a.picture[user].member; have != last[user] && !a.damaged[user] {
			w.problem("the membership of %.12s is %v after a list with %v", user, have, last[user])
		}
	}
}

// damage removes a segment of a stored list.
func (w *world) damage() {
	chosen := w.random.Uint64()
	subjects := w.server.Subjects("$KV.analytics-state.segment.>")
	if len(subjects) == 0 {
		return
	}
	subject := subjects[chosen%uint64(len(subjects))]
	w.note("%s is lost", subject)
	for _, data := range w.server.Lose(subject) {
		w.mu.Lock()
		for e := range roster.Read(1, func(int) ([]byte, error) { return data, nil }) {
			w.audience.damaged[e.User] = true
		}
		w.mu.Unlock()
	}
}

// deleteUsers requests the deletion of some users that are in no audience.
func (w *world) deleteUsers() {
	request := users.DeletionRequest{ID: fmt.Sprint("request", w.random.IntN(1_000_000)), Source: "web"}
	for range 1 + w.random.IntN(5) {
		request.UserIDs = append(request.UserIDs, fmt.Sprint("d", w.random.IntN(100)))
	}
	w.background("deletion of "+strings.Join(request.UserIDs, ", "), func(p *instance) {
		d, err := p.engine.Users().DeleteUsers(p.t.Context(), request)
		if err != nil {
			return // faults may prevent it
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deletions = append(w.deletions, d)
	})
}

// checkDeletions checks that all deletion requests are complete.
func (w *world) checkDeletions(p *instance) error {
	w.mu.Lock()
	accepted := slices.Clone(w.deletions)
	w.mu.Unlock()
	var incomplete []error
	for _, d := range accepted {
		now, err := p.engine.Users().Deletion(p.t.Context(), d.ID)
		if err == nil && now.CompletedAt.IsZero() {
			err = fmt.Errorf("deletion request %s is not complete: %+v", d.ID, now)
		}
		incomplete = append(incomplete, err)
	}
	return errors.Join(incomplete...)
}
