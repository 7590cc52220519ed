package jetstream_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A world is a complete system in a synctest bubble: senders, collectors, a NATS server in memory,
// and receivers. A seed determines all decisions. Time and connections are simulated. Only the
// client's spool is on a disk.
//
// Operations change the world at random; see the table operations. The receivers check each request
// when it arrives, and settle checks the final state.
type world struct {
	t          *testing.T
	seed       uint64
	random     *rand.Rand // selects operations
	server     *fakenats.Server
	collectors []*collector
	apps       []*app
	settings   settings.Settings // of the configuration
	audience   *audience
	tasks      sync.WaitGroup // operations in progress
	executed   []int          // indices of the executed operations

	mu        sync.Mutex       // guards the fields below
	deletions []users.Deletion // accepted requests
	trace     []string
	problems  []string
	calm      bool                 // whether there are no faults
	calmAt    time.Time            // when the faults ended
	settling  bool                 // whether all calls are stored and there are no faults
	chances   map[string]uint64    // number of random decisions of each kind
	stalls    map[string]time.Time // end of the stall of each stream
	receivers map[string]*receiver // by host, which is the destination's name
	work      workload
	kills     int                  // number of killed processes
	due       map[string]time.Time // next attempts of pending calls, by destination and call

	quarantined   string // type of the calls that the plan quarantines, or empty
	quarantinedAt time.Time
	fullUntil     time.Time // when the disk of the server has space again
	repaired      time.Time // when the calls of all failed replays are scheduled
}

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// TestSystemSimulation runs random operations and faults. SEEDS selects the seeds 1 to SEEDS, SEED selects one
// seed, and both select the seeds SEED to SEEDS. Without them, the test runs the seeds 3 to 26, because
// TestSystemSimulationRepeats runs the seeds 1 and 2. With TRACE=1, it prints all decisions.
func TestSystemSimulation(t *testing.T) {
	first, last := uint64(3), uint64(26)
	if testing.Short() {
		last = 10
	}
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		first, last = n, n
	}
	if n, err := strconv.ParseUint(os.Getenv("SEEDS"), 10, 64); err == nil {
		last = n
		if os.Getenv("SEED") == "" {
			first = 1
		}
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		simulateWorld(t, seed)
	}
}

// TestSystemSimulationRepeats checks that a seed always executes the same operations. The times of
// events may differ by microseconds, because the runtime selects ready goroutines at random.
func TestSystemSimulationRepeats(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		first, again := simulateWorld(t, seed), simulateWorld(t, seed)
		if !slices.Equal(first, again) {
			t.Errorf("seed %d executes %v, and then %v", seed, first, again)
		}
	}
}

// simulateWorld runs one seed. It returns the executed operations and the next random number.
func simulateWorld(t *testing.T, seed uint64) (executed []int) {
	defer jetstream.CleanTimers() // the NATS client pools timers, which cannot move between bubbles
	jetstream.CleanTimers()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a world is small
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		w := newWorld(t, seed)
		defer func() { executed = append(w.executed, w.random.IntN(1<<30)) }()
		defer w.end()
		w.run()
	})
	return executed
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), server: fakenats.New(false),
		chances: map[string]uint64{}, stalls: map[string]time.Time{}, receivers: map[string]*receiver{}, due: map[string]time.Time{},
		audience: newAudience(seed),
	}
	w.server.SetDecider(w.decide)
	for _, d := range []tracking.Destination{{Name: "crm"}, {Name: "ads", Sources: []string{"web"}}} {
		d.SharedSecret = "shared-secret"
		d.Webhooks = []webhook.Endpoint{{URL: "http://" + d.Name + "/?token=url-secret", Headers: map[string]string{"Authorization": "header-secret"}}}
		switch {
		case d.Name == "crm":
			d.Order = tracking.OrderUser
		case seed%3 == 0: // ads receives the calls from a relay
			d.Settings = webhook.Settings{Type: webhook.TypeRelay, WriteKey: "relay-secret", Endpoint: "http://" + d.Name}
		}
		w.settings.Destinations = append(w.settings.Destinations, d)
		w.receivers[d.Name] = newReceiver(w, d.Name)
	}
	w.receivers[extra] = newReceiver(w, extra)
	for _, name := range []string{"web", "ios"} {
		w.settings.Sources = append(w.settings.Sources, tracking.Source{Name: name, WriteKey: name + "-key"})
	}
	for i := range 1 + w.random.IntN(3) {
		w.collectors = append(w.collectors, &collector{world: w, name: fmt.Sprint("c", i+1), link: w.server.Link()})
	}
	for _, s := range w.settings.Sources {
		w.apps = append(w.apps, &app{world: w, source: s, batches: make(chan []string, 1000), counts: map[string]int{}, results: map[string]bool{}})
	}
	if ios := w.apps[1]; seed%2 == 0 {
		ios.spool = t.TempDir()
	}
	return w
}

// run starts the world, changes it at random, and checks its final state.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var background sync.WaitGroup
	background.Go(func() { w.server.Run(ctx, 200*time.Millisecond) })
	defer background.Wait()
	defer cancel()
	for _, c := range w.collectors {
		c.start()
	}
	defer func() {
		for _, c := range w.collectors {
			c.kill()
		}
	}()
	var sending sync.WaitGroup
	for _, a := range w.apps {
		sending.Go(a.run)
	}
	w.apps[1].open()
	for range 60 {
		w.operate()
		w.checkLedger()
		w.sleep(time.Duration(w.random.IntN(2000)) * time.Millisecond)
	}
	w.endFaults()
	for _, a := range w.apps {
		close(a.batches)
		a.finish()
	}
	sending.Wait()
	w.settle()
}

// end reports the problems of a run, and how to repeat it.
func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if os.Getenv("TRACE") != "" {
		w.t.Log(strings.Join(w.trace, "\n"))
	}
	if len(w.problems) > 0 {
		w.t.Errorf("%s\n%s\nRepeat it: SEED=%d go test -run TestSystemSimulation ./mockserver/collector/internal/jetstream",
			strings.Join(w.trace[max(0, len(w.trace)-100):], "\n"), strings.Join(w.problems[:min(10, len(w.problems))], "\n"), w.seed)
	}
}

// sleep waits. The nanoseconds ensure that no two events occur at the same time: their order would be
// random.
func (w *world) sleep(d time.Duration) { time.Sleep(d + time.Duration(w.chance("sleep", 1000))) }

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *world) noteLocked(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%v ", time.Since(start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// problem reports a violation. The lock is held.
func (w *world) problem(format string, args ...any) {
	w.noteLocked("PROBLEM: "+format, args...)
	w.problems = append(w.problems, fmt.Sprintf("%v ", time.Since(start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// chance returns a random number below n. It depends only on the seed, the kind of the decision, and
// the number of earlier decisions of that kind.
func (w *world) chance(kind string, n uint64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chanceLocked(kind, n)
}

func (w *world) chanceLocked(kind string, n uint64) uint64 {
	w.chances[kind]++
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, w.seed, kind, w.chances[kind])
	return (h.Sum64() >> 8) % n
}

// decide decides about a request to NATS.
func (w *world) decide(r *fakenats.Request) (time.Duration, fakenats.Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.work.requests++
	kind := r.Stream
	if words := strings.Split(r.Subject, "."); words[0] == "$JS" && len(words) > 3 {
		kind = strings.Join(words[:4], ".")
	}
	took := 200*time.Microsecond + time.Duration(w.chanceLocked(kind, 1_000_000))
	if until := w.stalls[r.Stream]; !w.calm && r.Stream != "" && until.After(time.Now()) {
		took += time.Until(until)
	}
	rate := uint64(200)
	if r.Stream != "" && kind == r.Stream { // a message for a stream
		w.work.published++
		rate = 30
	}
	if w.calm || w.chanceLocked(kind, rate) > 0 {
		return took, fakenats.Done
	}
	fate := []fakenats.Fate{fakenats.Lost, fakenats.Dropped, fakenats.Repeated, fakenats.Contested}[w.chanceLocked(kind, 4)]
	if strings.HasPrefix(r.Subject, "$JS.API.CONSUMER.CREATE.KV_") {
		fate = fakenats.Dropped // the client holds a sync.Mutex until it receives the response
	}
	w.noteLocked("request %v: %v", r, fate)
	return took, fate
}

// A collector is a process with a real collector. It can be killed and started again.
type collector struct {
	*world
	name    string
	link    *fakenats.Link
	process *instance // nil while it does not run
	blind   time.Time // end of the last partition; guarded by world.mu
}

// An instance is one run of a collector.
type instance struct {
	*collector
	journal *jetstream.Journal
	engine  *engine.Collector
	dead    bool // guarded by world.mu
	started time.Time
	ended   time.Time   // guarded by world.mu
	paced   []time.Time // requests to extra under its current rules; guarded by world.mu
}

// start starts a process. It tries again while the server does not respond.
func (c *collector) start() {
	c.note("%s starts", c.name)
	c.link.Cut(false)
	c.link.Silence(false)
	for {
		p := &instance{collector: c, started: time.Now()}
		err := p.open()
		if err == nil {
			c.process = p
			return
		}
		if !jetstream.Transient(err) && !c.hasFullDisk(p.started) {
			c.t.Fatalf("seed %d: %s does not start: %v", c.seed, c.name, err)
		}
		c.note("%s does not start yet: %v", c.name, err)
		c.sleep(time.Second)
	}
}

// hasFullDisk reports whether the disk of the server was full at any time after since.
func (w *world) hasFullDisk(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fullUntil.After(since)
}

func (p *instance) open() (err error) {
	log := slog.New(&traceHandler{world: p.world, name: p.name})
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	p.journal, err = jetstream.OpenOn(ctx, jetstream.Options{NATS: &jetstream.NATS{Replicas: 1}, Logger: log}, p.link, p.chance("writer", 1<<50))
	if err != nil {
		return err
	}
	config := engine.Config{
		Sources: p.settings.Sources, Destinations: p.settings.Destinations, Journal: countedJournal{p.journal, p.world}, Shared: true, Seen: p.journal.Seen, OnStored: p.journal.OnStored,
		Sender: webhook.SenderConfig{Transport: p}, Observers: []event.Observer{p}, Plans: plan{p.world}, Transforms: p.transforms, Instance: p.name + fmt.Sprint(p.chance("instance", 1<<30)), TempDir: p.t.TempDir(),
		Jitter: func() float64 { return float64(p.chance("jitter", 1000)) / 1000 }, Logger: log, Concurrency: 8,
	}
	config.Store, config.State = p.journal.Settings(), p.journal.State()
	if p.engine, err = engine.New(config); err != nil {
		_ = p.journal.Close()
	}
	return err
}

// kill ends a process. Its requests in transit may be executed, but it receives no responses.
func (c *collector) kill() {
	p := c.process
	if p == nil {
		return
	}
	c.note("%s is killed", c.name)
	c.mu.Lock()
	p.dead, p.ended = true, time.Now()
	c.kills++
	c.mu.Unlock()
	c.process = nil
	c.link.Cut(true)
	_ = p.journal.Close()
	_ = p.engine.Close()
}

// stop ends a process in order.
func (c *collector) stop() {
	p := c.process
	if p == nil {
		return
	}
	c.note("%s stops", c.name)
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	_ = p.engine.Shutdown(ctx) // requests may be canceled
	c.mu.Lock()
	defer c.mu.Unlock()
	p.dead, p.ended = true, time.Now()
	c.process = nil
}

// running returns the running processes.
func (w *world) running() (all []*instance) {
	for _, c := range w.collectors {
		if c.process != nil {
			all = append(all, c.process)
		}
	}
	return all
}

// Observe implements event.Observer.
func (p *instance) Observe(e event.Event) {
	ended, ok := e.(tracking.Ended)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work.results++
	key := ended.Destination + "/" + ended.CallID
	if ended.State != tracking.StatePending {
		delete(p.due, key)
		p.receivers[ended.Destination].visit(ended.CallID) // filtered calls have no requests
		return
	}
	p.due[key] = ended.RetryAt
	if ended.Reason == "replayed" {
		p.receivers[ended.Destination].visit(ended.CallID).exempt = true
	}
}

// A traceHandler adds the log of a process to the trace, and checks that it contains no secrets.
type traceHandler struct {
	*world
	name  string
	attrs []slog.Attr
}

func (l *traceHandler) Enabled(context.Context, slog.Level) bool { return true }

func (l *traceHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	add := func(a slog.Attr) bool { text += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true }
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level >= slog.LevelInfo {
		l.noteLocked("%s: %s", l.name, text)
	}
	if strings.Contains(text, "-key") || strings.Contains(text, "-secret") {
		l.problem("the log contains a secret: %s", text)
	}
	if strings.Contains(text, "could not store the Retry-After pause") {
		for _, r := range l.receivers {
			r.held.isUnstored = true
		}
	}
	return nil
}

func (l *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &traceHandler{l.world, l.name, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l *traceHandler) WithGroup(string) slog.Handler { return l }
