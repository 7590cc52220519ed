package jetstream

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A simulation is a journal on a server in memory, and a model of the expected state of each call.
// The seed determines the order and delay of the server's responses. A simulation runs in a
// synctest bubble, so each seed always gives the same run.
//
// Even seeds simulate a cluster, which drops, repeats and contests requests and loses responses. Odd
// seeds simulate an embedded server, which loses some unacknowledged requests in a crash.
type simulation struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	server  *fakenats.Server
	journal *Journal
	conns   []*nats.Conn                    // connections of the journal
	stalled map[*fakenats.Request]time.Time // delayed requests, with the end of their delay
	shared  bool                            // whether the server is a cluster
	full    bool                            // whether the server rejects data
	lagging bool                            // whether the server that delivers to scans lags behind
	calm    atomic.Bool                     // whether there are no failures and all calls are delivered
	trace   []string                        // decisions so far
	calls   int                             // number of calls, used for their IDs

	mu     sync.Mutex // guards the fields below
	model  *model
	ending *Journal // journal that is being closed or killed; its failed operations may have succeeded
}

// TestSimulation crashes a journal between two steps. SEEDS selects the seeds 1 to SEEDS, SEED selects one
// seed, and both select the seeds SEED to SEEDS. Without them, the test runs the seeds 3 to 60, because
// TestSimulationRepeats runs the seeds 1 and 2.
func TestSimulation(t *testing.T) {
	defer cleanTimers()
	first, last := uint64(3), uint64(60)
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
		simulate(t, seed)
	}
}

// TestSimulationRepeats checks that a seed always gives the same run. It runs the seed until two
// runs are equal, because on a busy machine the runtime may preempt a goroutine.
func TestSimulationRepeats(t *testing.T) {
	defer cleanTimers()
	for seed := uint64(1); seed <= 2; seed++ {
		first, again := simulate(t, seed), simulate(t, seed)
		for tries := 0; tries < 5 && !slices.Equal(first, again); tries++ {
			first, again = again, simulate(t, seed)
		}
		require.Equal(t, first, again, "seed %d", seed)
	}
}

// simulate runs one seed and returns its decisions.
func simulate(t *testing.T, seed uint64) (trace []string) {
	cleanTimers()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{
			t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), server: fakenats.New(true),
			stalled: map[*fakenats.Request]time.Time{}, model: newModel(), shared: seed%2 == 0,
		}
		defer func() { trace = s.trace }()
		defer s.logSeed()
		defer s.shutdown()
		s.run()
	})
	return trace
}

// cleanTimers empties the timer pool of the NATS client, because timers cannot move between
// bubbles.
func cleanTimers() {
	runtime.GC()
	runtime.GC()
}

// shutdown stops all goroutines of the bubble.
func (s *simulation) shutdown() {
	s.server.Stop()
	if s.journal != nil {
		_ = s.journal.Close()
	}
	s.disconnect()
}

func (s *simulation) run() {
	s.open()
	for range 300 {
		synctest.Wait() // the goroutines have handled the previous event
		switch n := s.random.IntN(200); {
		case n < 20:
			s.append()
		case n < 24:
			s.start("replay", s.replay)
		case n < 26:
			s.start("trim", func(j *Journal) { _ = j.Trim(j.Ctx) })
		case n < 27:
			s.crash()
		case n < 28:
			s.closeInOrder()
		case n < 29:
			s.decide("redeliver")
			s.server.RedeliverAll()
		case n < 30:
			s.refuse(!s.full)
		case n < 32 && s.shared:
			s.lag(1 + s.random.Uint64N(5))
		default:
			s.step()
		}
	}
	s.settle()
	s.closeInOrder()
	s.settle()
	s.prove()
}

// logSeed prints how to repeat a failed run.
func (s *simulation) logSeed() {
	if s.t.Failed() {
		s.t.Logf("The last decisions:\n%s\nRepeat it: SEED=%d go test -run 'TestSimulation$' ./mockserver/collector/internal/jetstream",
			strings.Join(s.trace[max(0, len(s.trace)-20):], "\n"), s.seed)
	}
}

func (s *simulation) decide(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%v ", time.Since(start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// start is the initial time of every bubble.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// step processes one request or advances the time.
func (s *simulation) step() {
	if s.lagging && s.random.IntN(100) == 0 {
		s.lag(0)
	}
	synctest.Wait()
	var free []*fakenats.Request
	for _, r := range s.server.Waiting() {
		if until, late := s.stalled[r]; !late || s.calm.Load() || !until.After(time.Now()) {
			free = append(free, r)
		}
	}
	if len(free) == 0 || !s.calm.Load() && s.random.IntN(30) == 0 {
		d := time.Duration(1+s.random.IntN(300)) * time.Millisecond
		s.decide("sleep %v", d)
		time.Sleep(d)
		synctest.Wait()
		s.server.Tick()
		return
	}
	r := free[s.random.IntN(len(free))]
	if !s.calm.Load() && s.random.IntN(30) == 0 {
		d := time.Duration(s.random.IntN(12_000)) * time.Millisecond
		s.decide("stall %v for %v", r, d)
		s.stalled[r] = time.Now().Add(d)
		return
	}
	fate := fakenats.Done
	if s.shared && !s.calm.Load() && s.random.IntN(40) == 0 {
		fate = []fakenats.Fate{fakenats.Lost, fakenats.Dropped, fakenats.Repeated, fakenats.Contested}[s.random.IntN(4)]
	}
	s.decide("process %v: %v", r, fate)
	s.server.Complete(r, fate)
}

// refuse makes the server reject or accept data.
func (s *simulation) refuse(full bool) {
	s.decide("full: %v", full)
	s.full = full
	s.server.Refuse(full)
}

// lag makes the server that delivers to scans and tails lack the last n messages.
func (s *simulation) lag(n uint64) {
	s.decide("lag: %d", n)
	s.lagging = n > 0
	s.server.Lag(n)
}

// during processes requests until f returns.
func (s *simulation) during(what string, f func()) {
	s.decide("%s", what)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for began := time.Now(); ; s.step() {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
		}
		if time.Since(began) > time.Hour {
			s.t.Fatalf("%s does not end", what)
		}
	}
}

// start runs an operation concurrently.
func (s *simulation) start(what string, f func(*Journal)) {
	s.decide("%s", what)
	j := s.journal
	j.Work.Go(func() { f(j) })
}

// open opens the journal. It tries again if a request was too late.
func (s *simulation) open() {
	s.server.Start()
	s.refuse(false)
	for opened := false; !opened; {
		var err error
		writer := s.random.Uint64()
		s.during("open", func() { err = s.connect(writer) })
		if opened = err == nil; !opened {
			s.disconnect()
		}
		if err != nil && !store.IsTransient(err) {
			s.t.Fatalf("the journal does not open: %v", err)
		}
	}
	s.attach("crm")
	s.attach("mail", "web")
}

// disconnect discards the requests that are in transit.
func (s *simulation) disconnect() {
	for _, nc := range s.conns {
		nc.Close()
	}
	s.conns = nil
	clear(s.stalled)
}

// connect opens the journal on new connections.
func (s *simulation) connect(writer uint64) error {
	var streams [2]store.Streams
	for i := range streams {
		nc, err := nats.Connect("", nats.InProcessServer(s.server), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			return err
		}
		s.conns = append(s.conns, nc)
		if streams[i], err = store.Connected(nc); err != nil {
			return err
		}
	}
	o := Options{MaxBytes: 8_000}
	if s.shared {
		o.NATS = &NATS{Replicas: 1}
	}
	o, err := o.withLimits()
	if err != nil {
		return err
	}
	j := newJournal(o)
	j.Writer, j.In, j.JS = writer, streams[0], streams[1]
	j, err = j.opened(func(j *Journal) error { return j.begin(context.Background()) })
	if err != nil {
		return err
	}
	s.journal = j
	return nil
}

// attach attaches a destination and delivers its calls.
func (s *simulation) attach(destination string, sources ...string) {
	j := s.journal
	s.during("attach "+destination, func() {
		r, err := j.Attach(j.Ctx, destination, sources)
		for ; err != nil && store.IsTransient(err); r, err = j.Attach(j.Ctx, destination, sources) {
		}
		if err != nil {
			s.t.Errorf("attaching: %v", err)
			return
		}
		for range 2 {
			j.Work.Go(func() { s.work(j, destination, r) })
		}
	})
}

// crash stops the process and the embedded server between two steps. Before that, the server
// processes some of the pending requests, and loses some of these.
func (s *simulation) crash() {
	s.decide("crash")
	s.end()
	synctest.Wait()
	for _, r := range s.server.Waiting() {
		if s.random.IntN(2) == 0 {
			s.decide("process %v: %v", r, fakenats.Lost)
			s.server.Complete(r, fakenats.Lost)
		}
	}
	s.server.Crash(func(_ string, n int) int {
		if s.shared {
			return n // a cluster keeps running
		}
		return s.random.IntN(n + 1)
	})
	_ = s.journal.Close()
	s.disconnect()
	s.model.crashed()
	s.open()
}

// end records that the journal is being closed or killed.
func (s *simulation) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = s.journal
}

// closeInOrder closes the journal and opens it on another server.
func (s *simulation) closeInOrder() {
	s.end()
	s.during("close", func() { _ = s.journal.Close() })
	s.server.Stop()
	s.disconnect()
	s.model.crashed()
	s.open()
}

func (s *simulation) append() {
	source := []string{"web", "ios"}[s.random.IntN(2)]
	calls := make([]tracking.Call, 1+s.random.IntN(8))
	if s.random.IntN(8) == 0 {
		calls = make([]tracking.Call, 100+s.random.IntN(100)) // the calls need several parts
	}
	for i := range calls {
		s.calls++
		id := fmt.Sprint("m", s.calls)
		calls[i] = tracking.Call{Source: source, ID: id, Body: fmt.Appendf(nil, `{"type":"track","messageId":%q}`, id)}
	}
	at := time.Now()
	s.start(fmt.Sprintf("append %d calls of %s", len(calls), source), func(j *Journal) {
		err := j.Append(j.Ctx, event.Batch{Source: source, ReceivedAt: at, Calls: calls})
		stored := len(calls)
		var incomplete *journal.AppendError
		switch {
		case errors.As(err, &incomplete):
			stored = incomplete.Stored() // Stored waits for the result
		case err != nil:
			stored = 0
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		known := err == nil || s.ending != j
		for i := range calls {
			s.model.accept(source, calls[i].ID, i < stored, known)
		}
	})
}

// work finishes entries until the journal or the reader is closed.
func (s *simulation) work(j *Journal, destination string, r journal.Reader) {
	for {
		l, err := r.Next(j.Ctx, journal.Want{})
		if err != nil {
			return
		}
		entry := l.Entry()
		if problem := s.leased(destination, entry); problem != "" {
			s.t.Errorf("%s of %s: %s", entry.ID, destination, problem)
		}
		chance := s.chance(entry.ID)
		time.Sleep(time.Duration(chance%400_000) * time.Microsecond)
		if chance%17 == 0 && !s.calm.Load() {
			s.returned(destination, entry)
			l.Return()
			continue
		}
		result := journal.Result{RetryAt: time.Now().Add(time.Duration(chance%3000) * time.Millisecond)}
		for i := range entry.Calls {
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: s.outcome(entry, i), Reason: "because"})
		}
		ends := s.finishing(destination, entry, result)
		if l.Finish(j.Ctx, result) == nil {
			s.finished(destination, entry, ends)
		}
	}
}

// chance returns a random number that depends only on the seed and the string.
func (s *simulation) chance(of string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, s.seed, of)
	return h.Sum64() >> 8
}

func (s *simulation) outcome(entry journal.Entry, i int) tracking.State {
	n := s.chance(entry.ID+"/"+entry.Calls[i].ID) % 10
	switch {
	case s.calm.Load() || n < 5:
		return tracking.StateDelivered
	case n < 6:
		return tracking.StateFiltered
	case n < 8 || entry.Attempt > 5:
		return tracking.StateFailed
	}
	return tracking.StatePending
}

// replay replays some failed calls.
func (s *simulation) replay(j *Journal) {
	var failed []tracking.Call
	err := j.Failed(j.Ctx, "crm", func(f journal.FailedCall) bool {
		if s.chance("replay "+f.Call.ID)%2 == 0 {
			failed = append(failed, f.Call)
		}
		return len(failed) < 150
	})
	if err != nil || len(failed) == 0 {
		return
	}
	s.mu.Lock()
	for i := range failed {
		s.model.at("crm", failed[i].ID).replays++
	}
	s.mu.Unlock()
	if err := j.Replay(j.Ctx, "crm", failed, nil, tracking.StateFailed); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range failed {
		s.model.at("crm", failed[i].ID).replayed++
	}
}

// settle finishes all calls.
func (s *simulation) settle() {
	s.calm.Store(true)
	s.refuse(false)
	s.lag(0)
	s.decide("settle")
	began := time.Now()
	for quiet := 0; quiet < 60; {
		synctest.Wait()
		if len(s.server.Waiting()) == 0 && s.isDone() {
			quiet++
		}
		s.step()
		if time.Since(began) > 10*time.Minute {
			s.t.Fatalf("undelivered calls: %v", s.ledgers())
		}
	}
}

func (s *simulation) isDone() bool {
	ledgers, _ := s.journal.ledger.Ledgers()
	for _, l := range ledgers {
		if l.Pending > 0 {
			return false
		}
	}
	return true
}

func (s *simulation) ledgers() (all []tracking.Ledger) {
	s.during("ledger", func() { all, _ = s.journal.Ledger(s.journal.Ctx) })
	return all
}

// prove compares the ledger with the stored data and with the model.
func (s *simulation) prove() {
	var proofs []journal.Verification
	var err error
	s.during("verify", func() { proofs, err = s.journal.Verify(s.journal.Ctx) })
	if err != nil {
		s.t.Fatalf("verifying: %v", err)
	}
	for _, proof := range proofs {
		listed := map[string]bool{}
		s.during("failed", func() {
			err = s.journal.Failed(s.journal.Ctx, proof.Destination, func(f journal.FailedCall) bool {
				listed[f.Call.ID] = true
				return true
			})
		})
		if !proof.OK() || err != nil {
			s.t.Fatalf("%+v, %v", proof, err)
		}
		if problem := s.model.check(proof.Ledger, listed); problem != "" {
			s.t.Fatalf("%s: %s: %s", proof.Destination, problem, inWords(proof.Ledger))
		}
	}
}
