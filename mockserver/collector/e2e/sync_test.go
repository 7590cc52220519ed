package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// A syncStatus is a sync as the admin API tells of it.
type syncStatus struct {
	ID      string
	Number  int
	State   string
	Users   int
	Entered int
	Left    int
}

// syncList takes a list of an audience to a collector. The error is that of the connection.
func syncList(t *testing.T, c *harness.Collector, list io.Reader) (s syncStatus, err error) {
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

// settledSync waits until a sync is done and all its calls have come.
func settledSync(t *testing.T, c *harness.Collector, id string) (s syncStatus) {
	t.Helper()
	waitFor(t, 10*time.Minute, "sync "+id+" is done", func() bool {
		require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/syncs/"+id, nil, &s))
		return s.State == "done"
	})
	settled(t, c, 10*time.Minute)
	return s
}

// A picture is what a receiver knows of the audience.
type picture struct {
	*httptest.Server

	mu     sync.Mutex // guards what follows
	member map[string]bool
	since  map[string]time.Time       // the timestamp of what it knows of each user
	told   map[int]map[string]bool    // by sync and user
	ids    map[string]map[string]bool // message IDs by sync and user
	odd    []string                   // what must not come
}

func newPicture(t *testing.T) *picture {
	p := &picture{member: map[string]bool{}, since: map[string]time.Time{}, told: map[int]map[string]bool{}, ids: map[string]map[string]bool{}}
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
	if p.told[n] == nil {
		p.told[n] = map[string]bool{}
	}
	if before, twice := p.told[n][d.UserID]; twice && before != is {
		p.odd = append(p.odd, fmt.Sprintf("both true and false in sync %d for %s", n, d.UserID))
	}
	p.told[n][d.UserID] = is
	key := fmt.Sprint(n, " ", d.UserID)
	if p.ids[key] == nil {
		p.ids[key] = map[string]bool{}
	}
	p.ids[key][r.Header.Get("X-Message-Id")] = true
	if d.Timestamp.After(p.since[d.UserID]) {
		p.since[d.UserID], p.member[d.UserID] = d.Timestamp, is
	}
}

// members is the picture as it is.
func (p *picture) members() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	members := map[string]bool{}
	for user, is := range p.member {
		if is {
			members[user] = true
		}
	}
	return members
}

func listOf(members map[string]bool) io.Reader {
	var b bytes.Buffer
	for user := range members {
		fmt.Fprintln(&b, user)
	}
	return &b
}

// TestKilledCollectorsLeaveReceiversTheRightPicture kills collectors while they
// take lists and while they send. SYNC_KILLS=100 is the full length.
func TestKilledCollectorsLeaveReceiversTheRightPicture(t *testing.T) {
	t.Parallel()
	kills := full(t, "SYNC_KILLS", 3)
	random := rand.New(rand.NewPCG(uint64(kills), 7))
	receiver := newPicture(t)
	path, address := configure(t, t.TempDir(), "data: data", destination("crm", receiver.URL))
	lists := []map[string]bool{{}} // by the number of the sync
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
		answered, err := syncList(t, c, listOf(list))
		if err == nil {
			require.Equal(t, len(lists), answered.Number)
			lists = append(lists, list)
		}
		<-dead
		c = serve(t, path, address, nil)
		if err != nil && lastSync(t, c) == len(lists) {
			lists = append(lists, list) // it was taken, but the answer was lost
		}
		if err != nil { // the sender repeats what was not answered
			answered, err = syncList(t, c, listOf(list))
			require.NoError(t, err)
			lists = append(lists, list)
		}
		if random.IntN(2) == 0 {
			settledSync(t, c, answered.ID)
			assert.Equal(t, list, receiver.members())
		}
		c.Kill()
	}
	c := serve(t, path, address, nil)
	list := next()
	last, err := syncList(t, c, listOf(list))
	require.NoError(t, err)
	settledSync(t, c, last.ID)
	lists = append(lists, list)

	assert.Equal(t, list, receiver.members())
	assert.Empty(t, receiver.odd)
	for n := 1; n < len(lists); n++ {
		changes := map[string]bool{}
		for user := range lists[n] {
			if !lists[n-1][user] {
				changes[user] = true
			}
		}
		for user := range lists[n-1] {
			if !lists[n][user] {
				changes[user] = false
			}
		}
		told := receiver.told[n]
		if told == nil {
			told = map[string]bool{}
		}
		assert.Equal(t, changes, told, "the calls of sync %d", n)
	}
	for key, ids := range receiver.ids {
		assert.Len(t, ids, 1, "a repeat has the same message ID: %s", key)
	}
	t.Logf("%d kills, %d syncs, %d calls", kills, len(lists)-1, len(receiver.ids))
}

// lastSync returns the number of the last sync of the only audience.
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

// TestLargeAudienceTakesACollectorLittleMemory syncs a list and then one in which
// 1 % has changed. MEMBERS=1000000 is the full length, at which memory is measured.
func TestLargeAudienceTakesACollectorLittleMemory(t *testing.T) {
	members := full(t, "MEMBERS", 5_000)
	counted := newTally(t, 2*members)
	path, address := configure(t, t.TempDir(), "data: data", destination("crm", counted.URL))
	c := serve(t, path, address, nil)
	sync := func(first int) syncStatus {
		t.Helper()
		start := time.Now()
		s, err := syncList(t, c, userFile(first, first+members-1))
		require.NoError(t, err)
		taken := time.Since(start)
		s = settledSync(t, c, s.ID)
		t.Logf("%d users: list taken in %v, %d entered and %d left, all delivered after %v; resident memory at most %d MB",
			s.Users, taken.Round(time.Millisecond), s.Entered, s.Left, time.Since(start).Round(time.Millisecond), peakMemory(t, c)>>20)
		return s
	}
	moved := members / 200
	sync(1)
	assert.Equal(t, [2]int{members, 0}, [2]int{counted.entered, counted.left})
	s := sync(1 + moved)
	assert.Equal(t, [2]int{moved, moved}, [2]int{s.Entered, s.Left}, "exactly the 1 %% that changed")
	assert.Equal(t, [2]int{members + moved, moved}, [2]int{counted.entered, counted.left})
	assert.Zero(t, counted.odd)
	if runtime.GOOS == "linux" && members >= 1_000_000 {
		assert.Less(t, peakMemory(t, c), int64(200<<20))
	}
}

// A tally is a receiver of a large audience whose users are numbers.
type tally struct {
	*httptest.Server
	mu                 sync.Mutex // guards what follows
	member             []bool
	entered, left, odd int
}

func newTally(t *testing.T, users int) *tally {
	y := &tally{member: make([]bool, users)}
	y.Server = httptest.NewServer(http.HandlerFunc(y.receive))
	t.Cleanup(y.Close)
	return y
}

func (y *tally) receive(w http.ResponseWriter, r *http.Request) {
	var d struct {
		UserID string
		Traits struct {
			Is bool `json:"big_spenders"`
		}
	}
	err := json.NewDecoder(r.Body).Decode(&d)
	n, numeric := strconv.Atoi(strings.TrimLeft(strings.TrimPrefix(d.UserID, "user-"), "0"))
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case err != nil || numeric != nil || y.member[n] == d.Traits.Is:
		y.odd++
	case d.Traits.Is:
		y.entered++
	default:
		y.left++
	}
	y.member[n] = d.Traits.Is
	w.WriteHeader(http.StatusNoContent)
}

// userFile is a file of the users from first to last, one a line, as it is read.
func userFile(first, last int) io.Reader {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriter(w)
		for i := first; i <= last; i++ {
			// In an order that is none: 7919 is prime to the powers of ten.
			fmt.Fprintf(out, "user-%012d\n", first+(i-first)*7919%(last-first+1))
		}
		w.CloseWithError(out.Flush())
	}()
	return r
}

// peakMemory returns the most resident memory that a collector had, in bytes; 0 where
// that is not known.
func peakMemory(t *testing.T, c *harness.Collector) int64 {
	t.Helper()
	usage, err := c.Usage()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
	}
	return usage.PeakRSS
}
