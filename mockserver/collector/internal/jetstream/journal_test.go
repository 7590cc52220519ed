package jetstream_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const patience = jetstream.Patience

func within(t testing.TB) context.Context { return jetstream.Within(t) }

func next(t testing.TB, r journal.Reader) journal.Lease {
	t.Helper()
	l, err := r.Next(within(t), journal.Want{})
	if err != nil {
		t.Fatalf("no entry: %v", err)
	}
	return l
}

// await polls a condition, because there is no event to wait for.
func await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: still not %s", patience, what)
		}
	}
}

// A sender appends incompressible calls and records the accepted ones.
type sender struct {
	journal  *jetstream.Journal
	sent     int // batches
	accepted map[string]bool
}

func newSender(j *jetstream.Journal) *sender {
	return &sender{journal: j, accepted: map[string]bool{}}
}

// send appends a batch of ten calls.
func (s *sender) send(t testing.TB) error {
	calls := noise(fmt.Sprint("m", s.sent, "."), 10, 2000)
	s.sent++
	err := s.journal.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls})
	if err == nil {
		for _, c := range calls {
			s.accepted[c.ID] = true
		}
	}
	return err
}

// fill appends until calls are refused, and returns the error.
func (s *sender) fill(t testing.TB) (err error) {
	t.Helper()
	for deadline := time.Now().Add(patience); err == nil; err = s.send(t) {
		if time.Now().After(deadline) {
			t.Fatal("calls are accepted that cannot be stored")
		}
	}
	return err
}

// resume appends until calls are accepted.
func (s *sender) resume(t testing.TB) {
	t.Helper()
	await(t, "calls are accepted again", func() bool { return s.send(t) == nil })
}

// noise returns incompressible calls.
func noise(prefix string, n, bytes int) []tracking.Call {
	calls := journaltest.Calls("web", prefix, n)
	for i := range calls {
		random := make([]byte, bytes/2)
		_, _ = rand.Read(random)
		calls[i].Body = fmt.Appendf(nil, `{"type":"track","event":"Tested","messageId":%q,"pad":%q}`, calls[i].ID, hex.EncodeToString(random))
	}
	return calls
}

// logged is a log that is printed if the test fails.
type logged struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func newLog(t testing.TB) *logged {
	l := &logged{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", l.text())
		}
	})
	return l
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func open(t testing.TB, o jetstream.Options) *jetstream.Journal {
	t.Helper()
	j, err := jetstream.Open(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJournal(t *testing.T) {
	t.Parallel()
	var dirs sync.Map // the directory of each journal
	journaltest.Run(t, journaltest.Options{
		Open: func(t *testing.T, maxBytes int64) journal.Journal {
			dir := t.TempDir()
			j := open(t, jetstream.Options{Dir: dir, MaxBytes: maxBytes})
			dirs.Store(j, dir)
			return j
		},
		Reopen: func(t *testing.T, j journal.Journal) journal.Journal {
			dir, _ := dirs.Load(j)
			left, err := jetstream.Copy(dir.(string), t.TempDir)
			if err != nil {
				t.Fatal(err)
			}
			again := open(t, jetstream.Options{Dir: left})
			dirs.Store(again, left)
			return again
		},
	})
}

// reopen opens a copy of the directory, which is in the same state as after a kill.
func reopen(t testing.TB, dir string) *jetstream.Journal {
	t.Helper()
	left, err := jetstream.Copy(dir, t.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, jetstream.Options{Dir: left})
}

func contextUntil(t testing.TB, deadline time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(t.Context(), deadline)
}
