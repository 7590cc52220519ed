package jetstream_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func appendCalls(t testing.TB, j *jetstream.Journal, source, prefix string, n int) []tracking.Call {
	t.Helper()
	calls := journaltest.Calls(source, prefix, n)
	ok(t, j.Append(within(t), event.Batch{Source: source, ReceivedAt: time.Now(), Calls: calls}))
	return calls
}

func attach(t testing.TB, j *jetstream.Journal, destination string, sources ...string) journal.Reader {
	t.Helper()
	r, err := j.Attach(within(t), destination, sources)
	ok(t, err)
	return r
}

// work finishes entries until n calls have a final state. decide returns the state of a call.
func work(t testing.TB, r journal.Reader, n int, decide func(id string, attempt int) tracking.State) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for n > 0 {
		ctx, cancel := contextUntil(t, deadline)
		l, err := r.Next(ctx, journal.Want{})
		cancel()
		ok(t, err)
		n -= settle(t, l, decide)
	}
}

// settle finishes an entry and returns the number of calls that have a final state.
func settle(t testing.TB, l journal.Lease, decide func(id string, attempt int) tracking.State) (final int) {
	t.Helper()
	result := journal.Result{RetryAt: time.Now()}
	for _, c := range l.Entry().Calls {
		state := decide(c.ID, l.Entry().Attempt)
		if state != tracking.StatePending {
			final++
		}
		result.Outcomes = append(result.Outcomes, tracking.Outcome{State: state, Reason: "because"})
	}
	ok(t, l.Finish(within(t), result))
	return final
}

func delivered(string, int) tracking.State { return tracking.StateDelivered }

// mixed retries every tenth call once, and fails or filters some of the other calls.
func mixed(id string, attempt int) tracking.State {
	switch {
	case strings.HasSuffix(id, "0") && attempt == 1:
		return tracking.StatePending
	case strings.HasSuffix(id, "1"):
		return tracking.StateFailed
	case strings.HasSuffix(id, "2"):
		return tracking.StateFiltered
	}
	return tracking.StateDelivered
}

func ledgerOf(t testing.TB, j *jetstream.Journal, destination string) tracking.Ledger {
	t.Helper()
	all, err := j.Ledger(within(t))
	ok(t, err)
	for _, l := range all {
		if l.Destination == destination {
			return l
		}
	}
	t.Fatalf("no ledger of %q in %+v", destination, all)
	return tracking.Ledger{}
}

// verified verifies the journal and returns a destination's ledger.
func verified(t testing.TB, j *jetstream.Journal, destination string) tracking.Ledger {
	t.Helper()
	all, err := j.Verify(within(t))
	ok(t, err)
	for _, v := range all {
		if !v.OK() {
			t.Fatalf("not verified: %+v\n%s", v.Ledger, strings.Join(v.Problems, "\n"))
		}
	}
	for _, v := range all {
		if v.Destination == destination {
			return v.Ledger
		}
	}
	t.Fatalf("%q is not among %+v", destination, all)
	return tracking.Ledger{}
}

func sums(l tracking.Ledger) string {
	return fmt.Sprintf("%d = %d + %d + %d + %d", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending)
}

func wantSums(t testing.TB, l tracking.Ledger, want string) {
	t.Helper()
	if got := sums(l); got != want {
		t.Fatalf("ledger of %s: %s, want %s", l.Destination, got, want)
	}
}

func TestTrimRemovesAndCountsFinishedCalls(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir, Keep: time.Millisecond})
	a, b := attach(t, j, "a"), attach(t, j, "b", "web")
	for i := range 10 {
		appendCalls(t, j, "web", fmt.Sprintf("w%d", i), 10)
		appendCalls(t, j, "ios", fmt.Sprintf("i%d", i), 10)
	}
	work(t, a, 200, mixed)
	work(t, b, 100, mixed)
	const inA, inB = "200 = 160 + 20 + 20 + 0", "100 = 80 + 10 + 10 + 0"
	wantSums(t, verified(t, j, "a"), inA)

	time.Sleep(2 * time.Millisecond) // wait until all calls are older than Keep
	ok(t, j.Trim(within(t)))
	stats, err := j.Stats(within(t))
	ok(t, err)
	if stats.Calls.Messages != 0 {
		t.Fatalf("%d messages of calls are left", stats.Calls.Messages)
	}
	wantSums(t, verified(t, j, "a"), inA)
	wantSums(t, verified(t, j, "b"), inB)

	calls := appendCalls(t, j, "web", "later", 10)
	ok(t, j.Replay(within(t), "b", calls[:0], nil, tracking.StateDelivered))
	j = reopen(t, dir)
	wantSums(t, verified(t, j, "a"), "210 = 160 + 20 + 20 + 10")
	work(t, attach(t, j, "a"), 10, delivered)
	wantSums(t, verified(t, j, "a"), "210 = 170 + 20 + 20 + 0")
	wantSums(t, verified(t, j, "b"), "110 = 80 + 10 + 10 + 10")
}

func TestTrimKeepsPendingCalls(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir, Keep: time.Hour, MaxBytes: 112 << 10})
	slow, fast := attach(t, j, "slow"), attach(t, j, "fast")
	accepted, behind, trimmed, left := 0, 0, 0, uint64(2) // two messages that attach destinations
	var held journal.Lease
	for round := range 10 {
		const messages = 10
		for i := range messages {
			appendCalls(t, j, "web", fmt.Sprintf("%d.%d.", round, i), 100)
		}
		accepted += 1000
		work(t, fast, 1000, mixed)
		switch round % 6 {
		case 0: // one entry remains pending, so Trim keeps all later messages
			held = next(t, slow)
			work(t, slow, 850, mixed)
			behind += 150
		case 5: // before the journal is full
			settle(t, held, mixed)
			work(t, slow, int(ledgerOf(t, j, "slow").Pending), mixed)
			behind = 0
		default:
			work(t, slow, 950, mixed)
			behind += 50
		}
		ok(t, j.Trim(within(t))) // space is short, and the calls are recent
		stats, err := j.Stats(within(t))
		ok(t, err)
		if stats.Calls.Messages < left+messages { // messages were removed by Trim, or before by the journal
			trimmed++
		}
		left = stats.Calls.Messages
		if l := verified(t, j, "slow"); l.Accepted != int64(accepted) || l.Pending > int64(behind) {
			t.Fatalf("round %d: %s", round, sums(l))
		}
	}
	if trimmed < 2 {
		t.Errorf("calls were removed %d times", trimmed)
	}
	ok(t, j.RemoveCheckpoints(within(t)))
	wantSums(t, ledgerOf(t, j, "fast"), "10000 = 8000 + 1000 + 1000 + 0")
	l := ledgerOf(t, j, "slow")
	j = reopen(t, dir)
	again := ledgerOf(t, j, "slow")
	wantSums(t, again, sums(l))
	work(t, attach(t, j, "slow"), int(l.Pending), mixed)
	wantSums(t, verified(t, j, "slow"), "10000 = 8000 + 1000 + 1000 + 0")
}

func TestExpiredCallsAreListedAsFailed(t *testing.T) {
	j := open(t, jetstream.Options{Dir: t.TempDir(), Keep: time.Millisecond})
	r := attach(t, j, "down")
	appendCalls(t, j, "web", "a", 10)
	l, err := r.Next(within(t), journal.Want{})
	ok(t, err)
	again := journal.Result{RetryAt: time.Now().Add(time.Hour), Outcomes: make([]tracking.Outcome, 10)}
	again.Outcomes[3].State = tracking.StateDelivered
	ok(t, l.Finish(within(t), again))
	appendCalls(t, j, "web", "b", 300)
	time.Sleep(2 * time.Millisecond) // wait until all calls are older than Keep

	ok(t, j.Trim(within(t)))
	wantSums(t, verified(t, j, "down"), "310 = 1 + 309 + 0 + 0")
	var failed []tracking.Call
	ok(t, j.Failed(within(t), "down", func(f journal.FailedCall) bool {
		if !strings.Contains(f.Reason, "still pending") {
			t.Errorf("%s: %s", f.Call.ID, f.Reason)
		}
		failed = append(failed, f.Call)
		return true
	}))
	if len(failed) != 309 {
		t.Fatalf("%d calls are listed as failed", len(failed))
	}
	ok(t, j.Replay(within(t), "down", failed, nil, tracking.StateFailed))
	work(t, r, 309, delivered)
	wantSums(t, verified(t, j, "down"), "310 = 310 + 0 + 0 + 0")
}

func TestExpiredCallsAreNotDelivered(t *testing.T) {
	j := open(t, jetstream.Options{Dir: t.TempDir(), Keep: time.Millisecond})
	r := attach(t, j, "down")
	appendCalls(t, j, "web", "a", 300)
	l, err := r.Next(within(t), journal.Want{}) // the other parts arrived in the same message
	ok(t, err)
	time.Sleep(2 * time.Millisecond) // wait until all calls are older than Keep

	ok(t, j.Trim(within(t)))
	wantSums(t, verified(t, j, "down"), "300 = 0 + 172 + 0 + 128")
	ok(t, l.Finish(within(t), journal.Result{Outcomes: slices.Repeat([]tracking.Outcome{{State: tracking.StateDelivered}}, 128)}))
	var failed []tracking.Call
	ok(t, j.Failed(within(t), "down", func(f journal.FailedCall) bool {
		failed = append(failed, f.Call)
		return true
	}))
	ok(t, j.Replay(within(t), "down", failed, nil, tracking.StateFailed))
	work(t, r, 172, delivered)
	wantSums(t, verified(t, j, "down"), "300 = 300 + 0 + 0 + 0")
}

// A journal that was full when a loss was accepted removes calls as they are finished, before
// all calls of that time are.
func TestTrimAfterAcceptedLoss(t *testing.T) {
	const limit = 80 << 10
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir, MaxBytes: limit})
	slow, fast := attach(t, j, "slow"), attach(t, j, "fast", "web")
	work := func(r journal.Reader, n int64) { work(t, r, int(n), mixed) }
	batch := func() error {
		return j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", rand.Text(), 100)})
	}
	ok(t, batch())
	work(slow, 60)
	work(fast, 100)
	fill := func() (batches int) {
		t.Helper()
		err := batch()
		for ; err == nil; err = batch() {
			batches++
		}
		if !errors.Is(err, journal.ErrFull) {
			t.Fatalf("Append: %v, want ErrFull", err)
		}
		return batches
	}
	var last journal.Lease
	for range fill() {
		last = next(t, slow)
	}
	waiting := len(last.Entry().Calls)
	ok(t, last.Finish(within(t), journal.Result{RetryAt: time.Now().Add(time.Hour), Outcomes: make([]tracking.Outcome, waiting)}))
	ok(t, j.Close())
	flip(t, streamFile(t, dir, "CALLS", "msgs/1.blk"), 0.4)

	j = open(t, jetstream.Options{Dir: dir, MaxBytes: limit, AcceptLoss: true})
	slow, fast = attach(t, j, "slow"), attach(t, j, "fast", "web")
	fill()
	left := verified(t, j, "slow")
	if left.Lost == 0 {
		t.Fatal("no calls were lost")
	}
	work(fast, verified(t, j, "fast").Pending)
	work(slow, left.Pending/2)
	ok(t, j.Trim(within(t)))
	half := verified(t, j, "slow")
	if half.Accepted != left.Accepted || half.Pending == 0 {
		t.Fatalf("%s before, %s after half of the calls", sums(left), sums(half))
	}
	if err := batch(); err != nil {
		t.Fatalf("Append after half of the calls: %v", err)
	}
	half = verified(t, j, "slow")

	ok(t, j.RemoveCheckpoints(within(t)))
	dir, err := jetstream.Copy(dir, t.TempDir)
	ok(t, err)
	ok(t, os.RemoveAll(filepath.Dir(streamFile(t, dir, "RETRY", "msgs/*.blk"))))
	j = open(t, jetstream.Options{Dir: dir}) // reads the base, and restores the retry
	wantSums(t, verified(t, j, "slow"), sums(half))
	work(attach(t, j, "slow"), half.Pending-int64(waiting))
	work(attach(t, j, "fast", "web"), 100)
	ok(t, j.Trim(within(t)))
	if all := verified(t, j, "slow"); all.Pending != int64(waiting) || all.Accepted != half.Accepted || all.Lost != left.Lost {
		t.Fatalf("%+v before, %+v at the end", half, all)
	}
}
