package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// aliasMap is an AliasStore in memory.
type aliasMap struct {
	mu    sync.Mutex // guards pairs
	pairs map[[2]event.Key]bool
}

func (m *aliasMap) Load(context.Context) ([][2]event.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.pairs)), nil
}

func (m *aliasMap) Save(_ context.Context, pair [2]event.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pairs[pair] = true
	return nil
}

// An orderModel appends random calls and checks that the calls of each user arrive in order. Its
// mutex guards the state of the simulated receiver.
type orderModel struct {
	t       *testing.T
	random  *rand.Rand // random source of the operations; the receiver uses fates
	journal journal.Journal
	aliases *aliasMap
	d       tracking.Destination
	worker  *Worker
	process *modelProcess
	failing bool // the journal fails to store some results
	started int  // number of workers

	calls   int
	bad     int               // number of quarantined calls
	users   map[string]string // name of each ID's queue
	byQueue map[string][]int  // calls of each queue

	mu       sync.Mutex
	fates    *rand.Rand
	before   map[string][]int // calls that must end before each call
	behind   map[int][]int    // calls that must begin after each call
	done     map[int]bool
	failed   map[int]time.Time // time of the first failure of each call
	inFlight map[int]bool
	healthy  bool
	trace    []string
	problem  string
}

// A modelProcess is a process that can crash. After a crash, it stores no results. If random is not
// nil, it also fails to store some results before a crash. Their entries can be leased again at once.
type modelProcess struct {
	journal.Reader
	mu     sync.Mutex // guards the fields below; locked while a result is stored
	killed bool
	random *rand.Rand
}

func (p *modelProcess) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	l, err := p.Reader.Next(ctx, want)
	if err != nil {
		return nil, err
	}
	return &modelLease{l, p}, nil
}

type modelLease struct {
	journal.Lease
	process *modelProcess
}

func (l *modelLease) Finish(ctx context.Context, r journal.Result) error {
	l.process.mu.Lock()
	defer l.process.mu.Unlock()
	if l.process.killed || l.process.random != nil && l.process.random.IntN(20) == 0 {
		l.Return()
		return errors.New("no disk")
	}
	return l.Lease.Finish(ctx, r)
}

func newOrderModel(t *testing.T, seed uint64, ordering tracking.Ordering) *orderModel {
	m := &orderModel{
		t: t, random: rand.New(rand.NewPCG(seed, 18)), fates: rand.New(rand.NewPCG(seed, 19)), journal: journal.NewMemory(0), aliases: &aliasMap{pairs: map[[2]event.Key]bool{}}, d: oneWebhook("d"),
		users: map[string]string{}, byQueue: map[string][]int{}, before: map[string][]int{}, behind: map[int][]int{}, done: map[int]bool{}, failed: map[int]time.Time{}, inFlight: map[int]bool{},
	}
	m.d.Ordering, m.failing = ordering, seed%2 == 1
	if m.random.IntN(3) == 0 {
		m.d.Webhooks = append(m.d.Webhooks, webhook.Endpoint{URL: "http://h/2"})
	}
	m.d.Events.Deny = []string{"Denied"}
	m.d.MaxPerSecond, m.d.Concurrency = []float64{0, 5, 50}[m.random.IntN(3)], m.random.IntN(3)
	m.start()
	return m
}

func (m *orderModel) note(format string, args ...any) {
	if m.problem == "" {
		m.trace = append(m.trace, fmt.Sprintf(format, args...))
	}
}

// start starts a worker in a new process.
func (m *orderModel) start() {
	reader, err := m.journal.Attach(m.t.Context(), "d", nil)
	require.NoError(m.t, err)
	seed := uint64(m.started)
	m.started++
	m.process = &modelProcess{Reader: reader}
	if m.failing {
		m.process.random = rand.New(rand.NewPCG(seed, 6))
	}
	m.mu.Lock()
	m.note("start")
	m.mu.Unlock()
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 7))
	m.worker = NewWorker(m.d, m.process, WorkerConfig{
		Sender: senderFunc(m.send), Observer: observerFunc(m.observe), Log: slog.New(slog.DiscardHandler), Concurrency: 4, Aliases: m.aliases,
		Jitter:     func() float64 { mu.Lock(); defer mu.Unlock(); return random.Float64() },
		Attach:     func(ctx context.Context) (journal.Reader, error) { return m.journal.Attach(ctx, "d", nil) },
		Quarantine: func(c *tracking.Call) string { return map[string]string{"Bad": "plan: it is bad"}[c.Event] },
	})
	m.worker.Start()
}

type observerFunc func(event.Event)

func (f observerFunc) Observe(e event.Event) { f(e) }

// observe records failed and filtered calls, which no longer block others.
func (m *orderModel) observe(e event.Event) {
	ended, ok := e.(tracking.Ended)
	if !ok || ended.State != tracking.StateFailed && ended.State != tracking.StateFiltered {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := strconv.Atoi(ended.CallID)
	m.note("ended %d: %s", n, ended.Reason)
	m.done[n] = true
}

// send simulates the receiver.
func (m *orderModel) send(ctx context.Context, r sender.Request) webhook.Attempt {
	n, _ := strconv.Atoi(r.MessageID)
	first := r.Endpoint.URL == m.d.Webhooks[0].URL
	m.mu.Lock()
	if first {
		m.arrived(n)
	}
	// The receiver accepts 7 of 10 calls, some with a delay. A permanent failure happens at all
	// webhooks.
	fate, delay := m.fates.IntN(20), time.Duration(m.fates.IntN(300))*time.Millisecond
	if m.fates.IntN(30) == 0 {
		delay = 10 * time.Second
	}
	if m.healthy {
		fate, delay = 0, time.Millisecond
	}
	m.mu.Unlock()
	a := webhook.Attempt{URL: r.Endpoint.URL, Number: r.Number, Status: 200, Verdict: webhook.Success}
	switch {
	case fate == 19:
		a.Status, a.Verdict, a.Error = 400, webhook.Permanent, "refused"
	case fate >= 15:
		a.Status, a.Verdict, a.Error = 503, webhook.Temporary, "busy"
		if fate == 16 {
			a.RetryAfter = 3 * time.Second
		}
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		a.Status, a.Verdict, a.Error = 0, webhook.Temporary, "time-out"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if first {
		delete(m.inFlight, n)
	}
	if a.Verdict != webhook.Temporary && a.Status != 0 {
		m.note("answered %d: %d", n, a.Status)
		m.done[n] = true
	} else if m.failed[n].IsZero() {
		m.failed[n] = time.Now()
	}
	return a
}

// arrived checks that a call arrives in order. The lock is held.
func (m *orderModel) arrived(n int) {
	m.note("got %d", n)
	for _, x := range m.before[strconv.Itoa(n)] {
		if m.isGivenUp(x) {
			m.done[x] = true // the observer is notified later
		}
		if (!m.done[x] || m.inFlight[x]) && m.problem == "" {
			m.problem = fmt.Sprintf("call %d came before call %d was done (under way: %v)", n, x, m.inFlight[x])
		}
	}
	if m.inFlight[n] && m.problem == "" {
		m.problem = fmt.Sprintf("call %d came twice at a time", n)
	}
	m.inFlight[n] = true
	for _, y := range m.behind[n] {
		delete(m.done, y) // later calls are repeated as well
	}
}

// isGivenUp reports whether a call must have failed permanently by now. The lock is held.
func (m *orderModel) isGivenUp(n int) bool {
	since := m.failed[n]
	return m.d.GiveUpAfter > 0 && !since.IsZero() && time.Since(since) >= m.d.GiveUpAfter-time.Second // the time is stored in seconds
}

// append appends a batch of calls.
func (m *orderModel) append() {
	b := event.Batch{Source: []string{"web", "app"}[m.random.IntN(2)], ReceivedAt: time.Now()}
	m.mu.Lock()
	for range 1 + m.random.IntN(8) {
		user := "u" + strconv.Itoa(m.random.IntN(6))
		c := tracking.Call{ID: strconv.Itoa(m.calls), Source: b.Source, Type: "track", UserID: user, ReceivedAt: b.ReceivedAt}
		if m.random.IntN(3) == 0 {
			c.UserID, c.AnonymousID = "", user
		}
		queue := m.queueOf(user)
		if m.random.IntN(25) == 0 {
			c.Type, c.UserID, c.AnonymousID, c.PreviousID = "alias", user, "", "u"+strconv.Itoa(m.random.IntN(6))
			if other := m.queueOf(c.PreviousID); other != queue {
				for id, of := range m.users {
					if of == other {
						m.users[id] = queue
					}
				}
				m.users[c.PreviousID] = queue
				m.byQueue[queue] = append(m.byQueue[queue], m.byQueue[other]...)
				delete(m.byQueue, other)
			}
		}
		c.Body = fmt.Appendf(nil, `{"type":%q,"userId":%q,"anonymousId":%q,"previousId":%q,"event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`, c.Type, c.UserID, c.AnonymousID, c.PreviousID)
		m.note("append %d %s %s %s", m.calls, c.Type, user, c.PreviousID)
		if c.Type == "track" && m.random.IntN(10) == 0 { // filtered calls are not ordered
			if c.Event = "Denied"; m.random.IntN(2) == 0 {
				c.Event = "Bad"
				m.bad++
			}
			b.Calls = append(b.Calls, c)
			m.calls++
			continue
		}
		m.before[c.ID] = slices.Clone(m.byQueue[queue])
		for _, x := range m.byQueue[queue] {
			m.behind[x] = append(m.behind[x], m.calls)
		}
		m.byQueue[queue] = append(m.byQueue[queue], m.calls)
		b.Calls = append(b.Calls, c)
		m.calls++
	}
	m.mu.Unlock()
	require.NoError(m.t, m.journal.Append(m.t.Context(), b))
}

func (m *orderModel) queueOf(user string) string {
	if queue, ok := m.users[user]; ok {
		return queue
	}
	m.users[user] = user
	return user
}

// kill simulates a crash: the worker stores no further results.
func (m *orderModel) kill() {
	m.process.mu.Lock()
	m.process.killed = true
	m.process.mu.Unlock()
	m.mu.Lock()
	m.note("kill")
	m.mu.Unlock()
	m.worker.Stop()
}

func (m *orderModel) pause(paused bool) {
	d := m.d
	d.Paused = paused
	m.mu.Lock()
	m.note("paused %v", paused)
	m.mu.Unlock()
	m.worker.Update(d, nil)
}

// changeOrder changes an ordering setting that does not affect the order of this test's calls.
func (m *orderModel) changeOrder() {
	m.mu.Lock()
	m.note("another order")
	switch m.d.GiveUpAfter {
	case 0:
		m.d.GiveUpAfter = webhook.Window
	case webhook.Window:
		m.d.GiveUpAfter = 0
	default:
		m.d.GiveUpAfter ^= 1
	}
	d := m.d
	m.mu.Unlock()
	m.worker.Update(d, nil)
}

func (m *orderModel) pending() int64 {
	ledgers, err := m.journal.Ledger(m.t.Context())
	require.NoError(m.t, err)
	return ledgers[0].Pending
}

// run executes random steps, and then waits until all calls have ended.
func (m *orderModel) run(steps int) {
	for range steps {
		switch m.random.IntN(20) {
		case 0:
			m.kill()
			m.start()
		case 1:
			m.worker.Stop()
			m.start()
		case 2:
			m.pause(true)
			time.Sleep(time.Duration(m.random.IntN(10_000)) * time.Millisecond)
			m.pause(false)
		case 3, 4, 5:
			time.Sleep(time.Duration(m.random.IntN(30_000)) * time.Millisecond)
		case 6:
			m.changeOrder()
		default:
			m.append()
			time.Sleep(time.Duration(m.random.IntN(200)) * time.Millisecond)
		}
	}
	m.mu.Lock()
	m.healthy = true
	m.mu.Unlock()
	for range 1000 {
		if m.pending() == 0 {
			break
		}
		time.Sleep(time.Minute)
	}
	m.worker.Stop()
	require.Zero(m.t, m.pending(), "calls are left")
	kept := 0
	require.NoError(m.t, m.journal.Failed(m.t.Context(), "d", func(f journal.FailedCall) bool {
		if f.Filtered {
			kept++
		}
		return true
	}))
	require.Equal(m.t, m.bad, kept, "calls that are quarantined are kept")
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.calls {
		if !m.done[n] && m.problem == "" {
			m.problem = fmt.Sprintf("call %d has not come again, and one before it has", n)
		}
	}
	if m.problem != "" {
		for _, line := range m.trace[max(0, len(m.trace)-400):] {
			m.t.Log(line)
		}
		m.t.Fatal(m.problem)
	}
}

// TestOrderModel delivers the calls of a few users to a destination. The destination fails, hangs,
// requests pauses, has a rate limit, is paused and changes its ordering, and its process stops or
// crashes. Calls must arrive in order, except filtered and quarantined calls. ORDER_SEEDS is the
// number of runs; see the Makefile.
func TestOrderModel(t *testing.T) {
	seeds := 8
	if text := os.Getenv("ORDER_SEEDS"); text != "" {
		var err error
		seeds, err = strconv.Atoi(text)
		require.NoError(t, err, "ORDER_SEEDS")
	}
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			ordering := tracking.Ordering{Order: tracking.OrderUser}
			if seed%3 == 1 {
				ordering.GiveUpAfter = 10 * time.Second
			}
			synctest.Test(t, func(t *testing.T) { newOrderModel(t, seed, ordering).run(120) })
		})
	}
}
