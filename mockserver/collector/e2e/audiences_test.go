package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// syncStatus is a sync as reported by the admin API.
type syncStatus struct {
	ID            string
	Number        int
	State         string
	Entered, Left int
}

// startSync uploads the list of an audience.
func startSync(t *testing.T, c *harness.Collector, list io.Reader) (s syncStatus, err error) {
	t.Helper()
	res, err := http.Post(c.URL+"/api/v1/audiences/Big%20Spenders/syncs?source=web&allowEmpty=true", "text/plain", list)
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return s, err
	}
	require.Equal(t, http.StatusCreated, res.StatusCode, "%s", answer)
	return s, json.Unmarshal(answer, &s)
}

// awaitSync waits until a sync is complete and all its calls have arrived.
func awaitSync(t *testing.T, c *harness.Collector, id string) (s syncStatus) {
	t.Helper()
	waitFor(t, 10*time.Minute, "the sync is done", func() bool {
		require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/syncs/"+id, nil, &s))
		return s.State == "done"
	})
	settled(t, c)
	return s
}

// lastSync returns the number of the latest sync of the audience, which is the only one.
func lastSync(t *testing.T, c *harness.Collector) int {
	t.Helper()
	var all struct {
		Computations []struct{ Syncs []syncStatus }
	}
	require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/computations", nil, &all))
	if len(all.Computations) == 0 {
		return 0
	}
	syncs := all.Computations[0].Syncs
	return syncs[len(syncs)-1].Number
}

// A picture is a receiver that records the calls about an audience.
type picture struct {
	*httptest.Server

	mu   sync.Mutex           // guards the fields below
	told []map[string]message // messages of each sync, keyed by user
	odd  []string             // unexpected calls
}

// A message is a call that reports whether a user is a member.
type message struct {
	is bool
	at time.Time
	id string
}

func newPicture(t *testing.T) *picture {
	p := &picture{}
	p.Server = httptest.NewServer(http.HandlerFunc(p.receive))
	t.Cleanup(p.Close)
	return p
}

func (p *picture) receive(_ http.ResponseWriter, r *http.Request) {
	var d struct {
		UserID    string
		Timestamp time.Time
		Traits    map[string]bool
		Context   struct{ Audience struct{ Sync int } }
	}
	err := json.NewDecoder(r.Body).Decode(&d)
	is, ours := d.Traits["big_spenders"]
	n := d.Context.Audience.Sync
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || !ours || n == 0 {
		p.odd = append(p.odd, fmt.Sprintf("%+v %v", d, err))
		return
	}
	told := p.of(n)
	m := message{is, d.Timestamp, r.Header.Get("X-Message-Id")}
	if before, twice := told[d.UserID]; twice && before != m {
		p.odd = append(p.odd, fmt.Sprintf("%+v and %+v of sync %d for %s", before, m, n, d.UserID))
	}
	told[d.UserID] = m
}

// of returns the messages of a sync. The caller must hold the lock unless all calls have
// arrived.
func (p *picture) of(sync int) map[string]message {
	for len(p.told) <= sync {
		p.told = append(p.told, map[string]message{})
	}
	return p.told[sync]
}

// changes returns the users in the messages of a sync. The value is true for members.
func (p *picture) changes(sync int) map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := map[string]bool{}
	for user, m := range p.of(sync) {
		changes[user] = m.is
	}
	return changes
}

// members returns the members according to the latest message for each user.
func (p *picture) members() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := map[string]message{}
	for _, told := range p.told {
		for user, m := range told {
			if m.at.After(newest[user].at) {
				newest[user] = m
			}
		}
	}
	members := map[string]bool{}
	for user, m := range newest {
		if m.is {
			members[user] = true
		}
	}
	return members
}

func listOf(members map[string]bool) io.Reader {
	var b bytes.Buffer
	for user := range members { // the order is random
		fmt.Fprintln(&b, user)
	}
	return &b
}

// difference returns the users that are in only one of two sets of members. The value is true
// for users in after.
func difference(before, after map[string]bool) map[string]bool {
	changes := map[string]bool{}
	for user := range after {
		if !before[user] {
			changes[user] = true
		}
	}
	for user := range before {
		if !after[user] {
			changes[user] = false
		}
	}
	return changes
}

// TestAudienceSurvivesKills kills collectors while they receive and send lists. Set
// SYNC_KILLS=100 for the full length.
func TestAudienceSurvivesKills(t *testing.T) {
	kills := full(t, "SYNC_KILLS", 3)
	random := rand.New(rand.NewPCG(uint64(kills), 7))
	receiver := newPicture(t)
	path, address := configure(t, t.TempDir(), "data: data", destination("crm", receiver.URL))
	lists := []map[string]bool{{}} // indexed by the number of the sync
	next := func() map[string]bool {
		list := map[string]bool{}
		for user := range lists[len(lists)-1] {
			if random.IntN(4) > 0 {
				list[user] = true
			}
		}
		for range random.IntN(3000) {
			list[fmt.Sprintf("user-%05d", random.IntN(5000))] = true
		}
		return list
	}
	for range kills {
		c := serve(t, path, address, nil)
		list := next()
		dead := make(chan struct{})
		time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, func() { c.Kill(); close(dead) })
		answered, err := startSync(t, c, listOf(list))
		if err == nil {
			require.Equal(t, len(lists), answered.Number)
			lists = append(lists, list)
		}
		<-dead
		c = serve(t, path, address, nil)
		if err != nil && lastSync(t, c) == len(lists) {
			lists = append(lists, list) // the collector accepted the list, but the response was lost
		}
		if err != nil { // a sender that gets no response repeats the request
			answered, err = startSync(t, c, listOf(list))
			require.NoError(t, err)
			lists = append(lists, list)
		}
		if random.IntN(2) == 0 {
			awaitSync(t, c, answered.ID)
			assert.Equal(t, list, receiver.members())
		}
		c.Kill()
	}
	c := serve(t, path, address, nil)
	list := next()
	last, err := startSync(t, c, listOf(list))
	require.NoError(t, err)
	awaitSync(t, c, last.ID)
	lists = append(lists, list)

	assert.Equal(t, list, receiver.members())
	assert.Empty(t, receiver.odd)
	for n := 1; n < len(lists); n++ {
		told := receiver.changes(n)
		for user, is := range difference(lists[n-1], lists[n]) {
			overtaken := slices.ContainsFunc(lists[n+1:], func(later map[string]bool) bool { return later[user] != is })
			if _, sent := told[user]; !sent && overtaken {
				told[user] = is
			}
		}
		assert.Equal(t, difference(lists[n-1], lists[n]), told, "the calls of sync %d", n)
	}
	t.Logf("%d kills, %d syncs", kills, len(lists)-1)
}

// TestLargeAudienceMemory syncs a list, and then a list with 1 % changes. Set MEMBERS=1000000
// for the full length, which also measures memory.
func TestLargeAudienceMemory(t *testing.T) {
	members := full(t, "MEMBERS", 5_000)
	receiver := newPicture(t)
	path, address := configure(t, t.TempDir(), "data: data", destination("crm", receiver.URL))
	c := serve(t, path, address, nil)
	before := map[string]bool{}
	for i, first := range []int{0, members / 200} {
		list := map[string]bool{}
		for n := range members {
			list[fmt.Sprintf("user-%012d", first+n)] = true
		}
		start := time.Now()
		s, err := startSync(t, c, listOf(list))
		require.NoError(t, err)
		taken := time.Since(start)
		s = awaitSync(t, c, s.ID)
		changes := difference(before, list)
		assert.Equal(t, len(changes), s.Entered+s.Left)
		assert.Equal(t, changes, receiver.changes(i+1))
		before = list
		used, err := c.Usage()
		if err == nil && members >= 1_000_000 {
			assert.Less(t, used.PeakRSS, int64(200<<20))
		}
		t.Logf("%d users: list taken in %v, %d entered and %d left, all delivered after %v; resident memory at most %d MB", members,
			taken.Round(time.Millisecond), s.Entered, s.Left, time.Since(start).Round(time.Millisecond), used.PeakRSS>>20)
	}
	assert.Empty(t, receiver.odd)
}
