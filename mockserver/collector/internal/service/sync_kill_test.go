package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

// childEnv has a process of this test run a collector, for the test to kill. Its
// value is the directory of the queue, and the URL of a webhook.
const childEnv = "SERVICE_TEST_CHILD"

func TestMain(m *testing.M) {
	if c := os.Getenv(childEnv); c != "" {
		if err := runChild(c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild runs a collector, and prints where it is.
func runChild(of string) error {
	dir, receiver, _ := strings.Cut(of, " ")
	c := &config.Config{
		Listen: "127.0.0.1:0", Data: dir,
		Sources:      []config.Source{{Name: "web", WriteKey: "key"}},
		Destinations: []config.Destination{{Name: "crm", Webhooks: []config.Webhook{{URL: receiver}}}},
	}
	SaveMemory()
	s, err := Start(context.Background(), Options{Config: c, Dev: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	fmt.Println(s.URL())
	return s.Run(context.Background())
}

// times returns a number of the environment, or the one given.
func times(env string, n int) int {
	if v, err := strconv.Atoi(os.Getenv(env)); err == nil && v > 0 {
		return v
	}
	return n
}

// A collectorProcess is a collector in a process of its own.
type collectorProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func startProcess(t *testing.T, dir, receiver string) *collectorProcess {
	t.Helper()
	p := &collectorProcess{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"="+dir+" "+receiver)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the process has not started")
	p.url = strings.TrimSpace(line)
	return p
}

// kill ends the process as kill -9 does.
func (p *collectorProcess) kill() {
	_ = p.cmd.Process.Kill() // it may be dead
	_ = p.cmd.Wait()
}

// ask asks the admin API. The error is that of the connection.
func (p *collectorProcess) ask(method, path string, body io.Reader, answer any) error {
	req, err := http.NewRequest(method, p.url+"/api/v1"+path, body)
	require.NoError(p.t, err)
	req.Header.Set("Content-Type", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	require.Less(p.t, res.StatusCode, 300, "%s", data)
	return json.Unmarshal(data, answer)
}

// syncStatus is a sync as the admin API tells of it.
type syncStatus struct {
	ID      string
	Number  int
	State   string
	Users   int
	Entered int
	Left    int
}

func (p *collectorProcess) sync(list io.Reader) (syncStatus, error) {
	var s syncStatus
	err := p.ask("POST", "/audiences/Big%20Spenders/syncs?allowEmpty=true", list, &s)
	return s, err
}

// settle waits until a sync is done and all its calls have come.
func (p *collectorProcess) settle(id string) syncStatus {
	p.t.Helper()
	var s syncStatus
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // another process has no event to wait for
		var ledger struct {
			Destinations []struct{ Pending int }
		}
		require.NoError(p.t, p.ask("GET", "/syncs/"+id, nil, &s))
		require.NoError(p.t, p.ask("GET", "/ledger", nil, &ledger))
		if s.State == "done" && ledger.Destinations[0].Pending == 0 {
			return s
		}
		require.True(p.t, time.Now().Before(deadline), "sync %+v, ledger %+v", s, ledger)
	}
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
	kills := times("SYNC_KILLS", 3)
	random := rand.New(rand.NewPCG(uint64(kills), 7))
	receiver := newPicture(t)
	dir := t.TempDir()
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
		p := startProcess(t, dir, receiver.URL)
		list := next()
		dead := make(chan struct{})
		time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, func() { p.kill(); close(dead) })
		answered, err := p.sync(listOf(list))
		if err == nil {
			require.Equal(t, len(lists), answered.Number)
			lists = append(lists, list)
		}
		<-dead
		p = startProcess(t, dir, receiver.URL)
		if err != nil && p.lastSync() == len(lists) {
			lists = append(lists, list) // it was taken, but the answer was lost
		}
		if err != nil { // the sender repeats what was not answered
			answered, err = p.sync(listOf(list))
			require.NoError(t, err)
			lists = append(lists, list)
		}
		if random.IntN(2) == 0 {
			p.settle(answered.ID)
			assert.Equal(t, list, receiver.members())
		}
		p.kill()
	}
	p := startProcess(t, dir, receiver.URL)
	list := next()
	last, err := p.sync(listOf(list))
	require.NoError(t, err)
	p.settle(last.ID)
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
func (p *collectorProcess) lastSync() int {
	p.t.Helper()
	var all struct {
		Computations []struct{ Syncs []syncStatus }
	}
	require.NoError(p.t, p.ask("GET", "/computations", nil, &all))
	if len(all.Computations) == 0 {
		return 0
	}
	syncs := all.Computations[0].Syncs
	return syncs[len(syncs)-1].Number
}

// TestLargeAudienceTakesACollectorLittleMemory syncs a list and then one in which
// 1 % has changed. MEMBERS=1000000 is the full length, at which memory is measured.
func TestLargeAudienceTakesACollectorLittleMemory(t *testing.T) {
	members := times("MEMBERS", 5_000)
	counted := newTally(t, 2*members)
	p := startProcess(t, t.TempDir(), counted.URL)
	sync := func(first int) syncStatus {
		t.Helper()
		start := time.Now()
		s, err := p.sync(userList(first, first+members-1))
		require.NoError(t, err)
		taken := time.Since(start)
		s = p.settle(s.ID)
		t.Logf("%d users: list taken in %v, %d entered and %d left, all delivered after %v; resident memory at most %d MB",
			s.Users, taken.Round(time.Millisecond), s.Entered, s.Left, time.Since(start).Round(time.Millisecond), p.peakMemory()>>20)
		return s
	}
	moved := members / 200
	sync(1)
	assert.Equal(t, [2]int{members, 0}, [2]int{counted.entered, counted.left})
	s := sync(1 + moved)
	assert.Equal(t, [2]int{moved, moved}, [2]int{s.Entered, s.Left}, "exactly the 1 %% that changed")
	assert.Equal(t, [2]int{members + moved, moved}, [2]int{counted.entered, counted.left})
	assert.Zero(t, counted.odd)
	for i, is := range counted.member {
		require.Equal(t, i > moved && i <= members+moved, is, "user %d", i)
	}
	if runtime.GOOS == "linux" && members >= 1_000_000 {
		assert.Less(t, p.peakMemory(), 200<<20)
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

// userList lists the users from first to last, one a line.
func userList(first, last int) io.Reader {
	var b bytes.Buffer
	for i := first; i <= last; i++ {
		// In an order that is none: 7919 is prime to the powers of ten.
		fmt.Fprintf(&b, "user-%012d\n", first+(i-first)*7919%(last-first+1))
	}
	return &b
}

// peakMemory returns the most resident memory that the process had, in bytes; 0
// where that is not known.
func (p *collectorProcess) peakMemory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kilobytes int
	_, _ = fmt.Sscan(string(after), &kilobytes)
	return kilobytes << 10
}
