package users_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A world contains the state that survives a crash of the process: the stored data and the
// receivers.
type world struct {
	t       *testing.T
	state   state.Store
	journal journal.Journal
	box     *inbox
	shared  bool // other processes share the state, so each process has a new name

	process   *process
	collector *engine.Collector
	lives     int

	properties map[string]*property // by destination and key
	deletions  int
	deliveries map[string]map[string]notice // by host, then message ID
}

// A property is a computation in the model.
type property struct {
	kind              users.ComputationKind
	name, destination string
	key               string
	lists             []map[string]string // lists by sync number; number 0 is the empty list
	full              []bool
	struck            map[int]bool      // numbers of the syncs that remove deleted users and send no calls
	unsure            map[string]string // a list that may or may not be queued, or nil
	unsureFull        bool
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, state: state.NewMemory(), journal: journal.NewMemory(0), box: &inbox{},
		properties: map[string]*property{}, deliveries: map[string]map[string]notice{},
	}
	for _, p := range []*property{
		{kind: users.KindAudience, name: "Big Spenders", destination: "crm"},
		{kind: users.KindAudience, name: "Big Spenders", destination: "ads"},
		{kind: users.KindAudience, name: "Churned", destination: "crm"},
		{kind: users.KindTrait, name: "Lifetime Value", destination: "crm"},
	} {
		p.key = users.SnakeCase(p.name)
		p.lists, p.full, p.struck = []map[string]string{{}}, []bool{false}, map[int]bool{}
		w.properties[p.destination+" "+p.key] = p
	}
	w.live(-1, false)
	return w
}

// live starts a process that crashes at the given write.
func (w *world) live(writes int, after bool) {
	w.lives++
	instance := "one"
	if w.shared {
		instance = fmt.Sprint(w.lives)
	}
	w.process = newProcess(writes, after)
	// If the process crashes during startup, start another one.
	config, _ := oneSource(hooks("crm", "ads")...)
	config.Sender.Transport, config.History = w.box, history.New(1000)
	config.Journal, config.State = mortalJournal{w.journal, w.process}, mortalState{w.state, w.process}
	config.Instance, config.BatchCalls = instance, 3
	c, err := engine.New(config)
	require.NoError(w.t, err)
	w.collector = c
}

// die kills the process.
func (w *world) die() {
	w.process.kill()
	require.NoError(w.t, w.collector.Close())
}

// sync sends a list to the process, and reports whether the process accepted it.
func (w *world) sync(p *property, list map[string]string, full bool) bool {
	var lines []string
	for id, value := range list {
		if p.kind == users.KindTrait {
			id = fmt.Sprintf(`{"userId":%q,"value":%q}`, id, value)
		}
		lines = append(lines, id)
	}
	s, err := w.collector.Users().StartSync(w.t.Context(), users.SyncRequest{
		Kind: p.kind, Name: p.name, Destination: p.destination, List: strings.NewReader(strings.Join(lines, "\n")), Full: full, AllowEmpty: true,
	})
	if err != nil {
		require.True(w.t, w.process.isDead() || errors.Is(err, users.ErrTooManySyncs), "%v", err)
		if w.process.isDead() {
			p.unsure, p.unsureFull = list, full
		}
		return false
	}
	require.Equal(w.t, len(p.lists), s.Number)
	p.lists, p.full = append(p.lists, list), append(p.full, full)
	return true
}

// revive starts a process that does not crash. If a list had no response, revive determines
// whether it was accepted, and otherwise sends it again.
func (w *world) revive() {
	w.die()
	w.live(-1, false)
	all, err := w.collector.Users().Computations(w.t.Context())
	require.NoError(w.t, err)
	for _, p := range w.properties {
		if p.unsure == nil {
			continue
		}
		last := 0
		for _, c := range all {
			if c.Destination == p.destination && c.Key == p.key && len(c.Syncs) > 0 {
				last = c.Syncs[len(c.Syncs)-1].Number
			}
		}
		if last == len(p.lists) {
			p.lists, p.full = append(p.lists, p.unsure), append(p.full, p.unsureFull)
		}
		list := p.unsure
		p.unsure = nil
		require.True(w.t, w.sync(p, list, false), "the repeat")
	}
}

// deleteUsers makes a deletion request and updates the model's lists.
func (w *world) deleteUsers(userIDs ...string) {
	ctx := w.t.Context()
	w.deletions++
	time.Sleep(time.Second) // the deletion is later than all sync timestamps
	d, err := w.collector.Users().DeleteUsers(ctx, users.DeletionRequest{ID: fmt.Sprint(w.deletions), UserIDs: userIDs})
	require.NoError(w.t, err)
	time.Sleep(time.Second)
	_, err = w.collector.Users().WaitDeletion(ctx, d.ID)
	require.NoError(w.t, err)
	all, err := w.collector.Users().Computations(ctx)
	require.NoError(w.t, err)
	for _, c := range all {
		p, last := w.properties[c.Destination+" "+c.Key], c.Syncs[len(c.Syncs)-1]
		found := false
		list := maps.Clone(p.lists[len(p.lists)-1])
		for _, user := range userIDs {
			_, in := list[user]
			found = found || in
			delete(list, user)
		}
		if last.Deletion != d.ID {
			require.False(w.t, found, "a user was left in the list")
			continue
		}
		require.Equal(w.t, len(p.lists), last.Number)
		p.lists, p.full = append(p.lists, list), append(p.full, false)
		p.struck[last.Number] = true
	}
}

// settle waits for all syncs and deliveries, and compares the results with the model.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 12*time.Hour)
	defer cancel()
	all, err := w.collector.Users().Computations(ctx)
	require.NoError(w.t, err)
	for _, c := range all {
		if n := len(c.Syncs); n > 0 {
			_, err := w.collector.Users().WaitSync(ctx, c.Syncs[n-1].ID)
			require.NoError(w.t, err)
		}
	}
	for {
		synctest.Wait()
		ledgers, err := w.collector.Ledger(ctx)
		require.NoError(w.t, err)
		if !slices.ContainsFunc(ledgers, func(l tracking.Ledger) bool { return l.Pending > 0 }) {
			break
		}
		require.NoError(w.t, ctx.Err(), "calls are still pending: %+v", ledgers)
		time.Sleep(time.Second)
	}
	w.gather()
	for _, p := range w.properties {
		w.check(p)
	}
}

// tidy waits until abandoned uploads have expired, and checks that only the last list of each
// property is stored.
func (w *world) tidy() {
	if w.shared {
		w.die()
		time.Sleep(25 * time.Hour)
		w.live(-1, false)
	}
	for _, p := range w.properties {
		require.True(w.t, w.sync(p, map[string]string{"u1": "true"}, false))
	}
	w.settle()
	keys, err := w.state.Keys(w.t.Context(), "segment")
	require.NoError(w.t, err)
	require.Len(w.t, keys, len(w.properties), "%v", keys)
}

// gather collects deliveries. Repeated calls must have equal contents.
func (w *world) gather() {
	for _, d := range w.box.take() {
		byID := w.deliveries[d.host]
		if byID == nil {
			byID = map[string]notice{}
			w.deliveries[d.host] = byID
		}
		if before, twice := byID[d.id]; twice {
			require.Equal(w.t, before.body, d.body)
		}
		byID[d.id] = d
	}
}

// check compares the calls of each sync, and each user's final value, with the lists.
func (w *world) check(p *property) {
	w.t.Helper()
	bySync := make([]map[string]string, len(p.lists))
	for n := range bySync {
		bySync[n] = map[string]string{}
	}
	picture, newest := map[string]string{}, map[string]time.Time{}
	for _, d := range w.deliveries[p.destination] {
		value, ours := d.Traits[p.key]
		if d.Type == "delete" && d.Timestamp.After(newest[d.UserID]) {
			newest[d.UserID] = d.Timestamp
			delete(picture, d.UserID)
		}
		if !ours {
			continue
		}
		n := d.Context.Audience.Sync + d.Context.Trait.Sync
		require.Less(w.t, n, len(p.lists), "no such sync")
		require.NotContains(w.t, bySync[n], d.UserID, "two calls of sync %d", n)
		bySync[n][d.UserID] = fmt.Sprint(value)
		if d.Timestamp.After(newest[d.UserID]) {
			newest[d.UserID] = d.Timestamp
			picture[d.UserID] = fmt.Sprint(value)
		}
	}
	for n := 1; n < len(p.lists); n++ {
		for user, value := range p.changes(n) {
			if _, sent := bySync[n][user]; !sent && p.overtaken(n, user) {
				bySync[n][user] = value
			}
		}
		require.Equal(w.t, p.changes(n), bySync[n], "the calls of sync %d of %s at %s", n, p.name, p.destination)
	}
	maps.DeleteFunc(picture, func(_, v string) bool { return v == "false" || v == "<nil>" })
	require.Equal(w.t, p.lists[len(p.lists)-1], picture, "the picture of %s at %s", p.name, p.destination)
}

// overtaken reports whether a list after sync n contradicts a user's value.
func (p *property) overtaken(n int, user string) bool {
	value, listed := p.lists[n][user]
	return slices.ContainsFunc(p.lists[n+1:], func(later map[string]string) bool {
		v, in := later[user]
		return in != listed || v != value
	})
}

// changes returns the expected calls of sync n, including calls that later lists may supersede.
func (p *property) changes(n int) map[string]string {
	changes := map[string]string{}
	if p.struck[n] {
		return changes
	}
	before, after := p.lists[n-1], p.lists[n]
	for user, v := range after {
		if old, known := before[user]; !known || old != v || p.full[n] {
			changes[user] = v
		}
	}
	for user := range before {
		if _, still := after[user]; !still {
			changes[user] = map[users.ComputationKind]string{users.KindAudience: "false", users.KindTrait: "<nil>"}[p.kind]
		}
	}
	return changes
}

// list returns a random list derived from the last one.
func (p *property) list(r *rand.Rand) map[string]string {
	list := maps.Clone(p.lists[len(p.lists)-1])
	value := func() string {
		if p.kind == users.KindTrait {
			return fmt.Sprintf("v%d", r.IntN(3))
		}
		return "true"
	}
	switch r.IntN(8) {
	case 0:
		clear(list)
	case 1:
		for i := range 40 {
			list[fmt.Sprintf("u%d", i)] = value()
		}
	default:
		for range r.IntN(15) {
			user := fmt.Sprintf("u%d", r.IntN(40))
			if _, in := list[user]; in && r.IntN(2) == 0 {
				delete(list, user)
			} else {
				list[user] = value()
			}
		}
	}
	return list
}

// In this test, the process crashes before and after each of its writes.
func TestSyncSurvivesACrashAtEveryWrite(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 4
	}
	for _, after := range []bool{false, true} {
		for writes, done := 0, false; !done; writes += every {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer func() { w.die() }()
				p := w.properties["crm big_spenders"]
				first, second := map[string]string{}, map[string]string{}
				for i := range 30 {
					first[fmt.Sprintf("u%d", i)] = "true"
					second[fmt.Sprintf("u%d", i+15)] = "true"
				}
				w.sync(p, first, false)
				w.settle()
				w.die()
				w.live(writes, after)
				w.sync(p, second, false)
				time.Sleep(time.Minute) // by then, the process makes no more progress
				synctest.Wait()
				done = !w.process.isDead()
				w.revive()
				w.settle()
				w.tidy()
			})
			require.Less(t, writes, 100)
		}
	}
}

// The test executes a random sequence of syncs, crashes and outages. MODEL_STEPS and MODEL_SEED
// set its length and seed.
func TestReceiversKnowTheLastLists(t *testing.T) {
	steps, seed := 400, uint64(1)
	if raceEnabled {
		steps = 100
	}
	if n, err := strconv.Atoi(os.Getenv("MODEL_STEPS")); err == nil {
		steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("MODEL_SEED"), 10, 64); err == nil {
		seed = n
	}
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		defer func() { w.die() }()
		outage := 0 // number of failures per 10 requests
		luck := rand.New(rand.NewPCG(seed, 1))
		w.box.answers(func(string) int {
			if outage > luck.IntN(10) {
				return 503
			}
			return 200
		})
		names := slices.Sorted(maps.Keys(w.properties))
		kills := 0
		for step := range steps {
			p := w.properties[names[r.IntN(len(names))]]
			switch r.IntN(10) {
			case 0:
				w.box.mu.Lock()
				outage = max(0, r.IntN(20)-10)
				w.box.mu.Unlock()
			case 1:
				time.Sleep(time.Duration(r.IntN(100)) * time.Second)
			case 2, 3:
				w.die()
				w.shared = w.shared || r.IntN(20) == 0
				w.live(r.IntN(20), r.IntN(2) == 0)
			case 4:
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
				w.die()
				w.live(-1, false)
			case 5:
				w.box.mu.Lock()
				outage = 0
				w.box.mu.Unlock()
				w.revive()
				w.deleteUsers(fmt.Sprintf("u%d", r.IntN(40)), fmt.Sprintf("u%d", r.IntN(40)))
			default:
				if !w.process.isDead() {
					w.sync(p, p.list(r), r.IntN(10) == 0)
				}
			}
			if w.process.isDead() {
				kills++
				w.revive()
			}
			if step%20 == 19 || step == steps-1 {
				w.box.mu.Lock()
				outage = 0
				w.box.mu.Unlock()
				w.revive()
				w.settle()
			}
		}
		w.tidy()
		syncs := 0
		for _, p := range w.properties {
			syncs += len(p.lists) - 1
		}
		t.Logf("seed %d: %d steps, %d syncs, %d kills in the middle, %d processes", seed, steps, syncs, kills, w.lives)
		require.Greater(t, kills, steps/100)
	})
}
