package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A holdModel is two processes that deliver the calls of a shared journal in order. The processes
// are cut off, stopped or killed, and messages and responses are lost.
type holdModel struct {
	*sharing
	random  *rand.Rand // selects operations
	d       tracking.Destination
	workers [2]*delivery.Worker
	sent    []int // number of calls sent for each user

	mu       sync.Mutex // guards the fields below
	fates    *rand.Rand // selects the results of requests
	last     []int      // last accepted call of each user
	healthy  bool
	trace    []string
	problems []string
}

func (m *holdModel) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%v ", time.Since(start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// decide records an operation.
func (m *holdModel) decide(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(format, args...)
}

// Observe implements event.Observer.
func (m *holdModel) Observe(event.Event) {}

// Load implements delivery.AliasStore.
func (m *holdModel) Load(context.Context) ([][2]event.Key, error) { return nil, nil }

// Save implements delivery.AliasStore.
func (m *holdModel) Save(context.Context, [2]event.Key) error { return nil }

// A modelSender is the sender of one process.
type modelSender struct {
	*holdModel
	process int
}

// Send checks the order. Call n of a user must be followed by call n+1, or by an earlier call and
// then again by all calls after that one.
func (s modelSender) Send(ctx context.Context, r sender.Request) webhook.Attempt {
	a := webhook.Attempt{URL: r.Endpoint.URL, Number: r.Number, Status: http.StatusOK, Verdict: webhook.Success}
	s.mu.Lock()
	user, n, _ := strings.Cut(r.MessageID, "-")
	u, _ := strconv.Atoi(user)
	i, _ := strconv.Atoi(n)
	fate, delay := s.fates.IntN(30), time.Duration(s.fates.IntN(100))*time.Millisecond
	if s.fates.IntN(40) == 0 {
		delay = 5 * time.Second
	}
	if s.healthy {
		fate, delay = 1, time.Millisecond
	}
	if s.note("%d sends %s", s.process, r.MessageID); ctx.Err() != nil {
		s.mu.Unlock()
		return webhook.Attempt{URL: r.Endpoint.URL, Number: r.Number, Verdict: webhook.Temporary, Error: "aborted"}
	}
	if i > s.last[u]+1 {
		s.problems = append(s.problems, fmt.Sprintf("call %d of user %d was received after call %d", i, u, s.last[u]))
	}
	if fate == 0 {
		a.Status, a.Verdict, a.Error = http.StatusServiceUnavailable, webhook.Temporary, "busy"
	} else {
		s.last[u] = i
	}
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		a.Status, a.Verdict, a.Error = 0, webhook.Temporary, "aborted"
	}
	return a
}

func (m *holdModel) start(i int) {
	reader := m.readers[i]
	j := m.journals[i]
	m.workers[i] = delivery.NewWorker(m.d, reader, delivery.WorkerConfig{
		Sender: modelSender{m, i}, Observer: m, Aliases: m, Log: slog.New(slog.DiscardHandler), Concurrency: 4,
		Jitter: func() float64 { return 0.5 },
		Attach: func(ctx context.Context) (journal.Reader, error) { return j.Attach(ctx, "crm", nil) },
	})
	m.workers[i].Start()
}

// end stops or kills a process and starts it again.
func (m *holdModel) end(i int, kill bool) {
	m.decide("end %d, kill %v", i, kill)
	m.streams[i].isCutOff.Store(m.streams[i].isCutOff.Load() || kill)
	if kill {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			require.NoError(m, m.journals[i].Close())
		}()
		m.workers[i].Stop()
		<-closed
	} else {
		m.workers[i].Stop()
		require.NoError(m, m.journals[i].Close())
	}
	m.open(i)
	m.start(i)
}

func (m *holdModel) pause(paused bool) {
	m.decide("paused %v", paused)
	d := m.d
	d.Paused = paused
	for _, w := range m.workers {
		w.Update(d, nil)
	}
}

// append appends calls of some users.
func (m *holdModel) append(users int) {
	at := time.Now()
	b := event.Batch{Source: "web", ReceivedAt: at}
	for range 1 + m.random.IntN(12) {
		u := m.random.IntN(users)
		m.sent[u]++
		b.Calls = append(b.Calls, tracking.Call{
			ID: fmt.Sprintf("%d-%d", u, m.sent[u]), Source: "web", Type: "track", UserID: strconv.Itoa(u), ReceivedAt: at,
			Body: fmt.Appendf(nil, `{"type":"track","event":"E","userId":"%d","messageId":"%d-%d","timestamp":"2026-01-01T00:00:00.000Z"}`, u, u, m.sent[u]),
		})
	}
	m.decide("append %d", len(b.Calls))
	for m.journals[m.random.IntN(2)].Append(m.Context(), b) != nil {
		time.Sleep(100 * time.Millisecond)
	}
}

func (m *holdModel) run(steps int) {
	const users = 5
	m.sent, m.last = make([]int, users), make([]int, users)
	for i := range m.workers {
		m.start(i)
	}
	for range steps {
		switch n := m.random.IntN(40); {
		case n < 3:
			i := m.random.IntN(2)
			m.decide("cut off %d: %v", i, n != 0)
			m.streams[i].isCutOff.Store(n != 0)
		case n < 4:
			m.end(m.random.IntN(2), true)
		case n < 5:
			m.end(m.random.IntN(2), false)
		case n < 6:
			m.pause(true)
			time.Sleep(time.Duration(m.random.IntN(30_000)) * time.Millisecond)
			m.pause(false)
		case n < 7:
			i := m.random.IntN(2)
			m.decide("lossy %d", i)
			m.streams[i].loses.Store(!m.streams[i].loses.Load())
		case n < 8:
			m.decide("redeliver")
			m.server.RedeliverAll()
		case n < 9:
			_ = m.journals[m.random.IntN(2)].Trim(m.Context())
		case n < 14:
			time.Sleep(time.Duration(m.random.IntN(8_000)) * time.Millisecond)
		default:
			m.append(users)
			time.Sleep(time.Duration(m.random.IntN(300)) * time.Millisecond)
		}
	}
	m.decide("settle")
	m.mu.Lock()
	m.healthy = true
	m.mu.Unlock()
	for i := range m.streams {
		m.streams[i].isCutOff.Store(false)
		m.streams[i].loses.Store(false)
	}
	for range 240 {
		if m.isDone() {
			break
		}
		time.Sleep(5 * time.Second)
	}
	for _, w := range m.workers {
		w.Stop()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.sent, m.last) {
		m.problems = append(m.problems, fmt.Sprintf("%d calls of each user were sent; the last ones received are %d", m.sent, m.last))
	}
	if len(m.problems) > 0 {
		m.Errorf("%s\n%s", strings.Join(m.trace[max(0, len(m.trace)-300):], "\n"), strings.Join(m.problems[:min(5, len(m.problems))], "\n"))
	}
}

func (m *holdModel) isDone() bool {
	ledgers, err := m.journals[0].Ledger(m.Context())
	return err == nil && ledgers[0].Pending == 0
}

// TestHoldModel runs as many seeds as HOLD_SEEDS specifies (default 6), or only the seed in
// HOLD_SEED. Two runs of a seed may differ.
func TestHoldModel(t *testing.T) {
	defer cleanTimers()
	first, last := uint64(0), uint64(6)
	if n, err := strconv.ParseUint(os.Getenv("HOLD_SEEDS"), 10, 64); err == nil {
		last = n
	}
	if n, err := strconv.ParseUint(os.Getenv("HOLD_SEED"), 10, 64); err == nil {
		first, last = n, n+1
	}
	for seed := first; seed < last && !t.Failed(); seed++ {
		cleanTimers()
		synctest.Test(t, func(t *testing.T) {
			m := &holdModel{random: rand.New(rand.NewPCG(seed, 1)), fates: rand.New(rand.NewPCG(seed, 2))}
			m.d = tracking.Destination{Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://h/1"}}}}
			m.d.Order = tracking.OrderUser
			m.sharing = share(t)
			m.run(80)
			if t.Failed() {
				t.Logf("HOLD_SEED=%d", seed)
			}
		})
	}
}
