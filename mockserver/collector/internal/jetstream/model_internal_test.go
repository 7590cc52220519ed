package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A life is a journal with random operations, and a model of the expected state of each call.
type life struct {
	*testing.T
	ctx      context.Context
	random   *rand.Rand
	dir      string
	journal  *Journal
	reader   journal.Reader
	states   map[string]tracking.State // state of each accepted call
	accepted int
	what     string // description of the last operation
}

// TestRandomOperations appends, delivers, replays, trims, kills and corrupts at random.
// JOURNAL_STEPS is the number of operations, and JOURNAL_SEED is the seed.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	steps, _ := strconv.Atoi(os.Getenv("JOURNAL_STEPS"))
	seed, _ := strconv.ParseInt(os.Getenv("JOURNAL_SEED"), 10, 64)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	l := &life{T: t, ctx: ctx, random: rand.New(rand.NewSource(seed)), dir: t.TempDir(), states: map[string]tracking.State{}}
	l.open(false)
	defer func() { require.NoError(t, l.journal.Close()) }()
	for step := range max(steps, 60) {
		l.what = fmt.Sprintf("JOURNAL_SEED=%d, step %d: ", seed, step)
		switch n := l.random.Intn(20); {
		case n < 7:
			l.append()
		case n < 14:
			l.work()
		case n < 16:
			l.replay()
		case n < 17:
			l.trim()
		case n < 18:
			l.kill()
		case n < 19:
			l.close()
		default:
			l.damage()
		}
	}
	l.what += "at the end"
	l.finish()
}

func (l *life) no(err error) {
	l.Helper()
	require.NoError(l, err, l.what)
}

func (l *life) open(acceptLoss bool) {
	l.Helper()
	var err error
	l.journal, err = Open(l.ctx, Options{Dir: l.dir, AcceptLoss: acceptLoss, MaxBytes: 64 << 10, Keep: 24 * time.Hour})
	l.no(err)
	l.check()
	l.reader, err = l.journal.Attach(l.ctx, "crm", nil)
	l.no(err)
}

// ledger verifies the journal and returns its ledger.
func (l *life) ledger() (ledger tracking.Ledger) {
	l.Helper()
	all, err := l.journal.Verify(l.ctx)
	l.no(err)
	for _, v := range all {
		require.True(l, v.OK(), "%s: %+v", l.what, v)
		ledger = v.Ledger
	}
	return ledger
}

// check compares the ledger with the model.
func (l *life) check() {
	l.Helper()
	ledger := l.ledger()
	counted := map[tracking.State]int{}
	for _, state := range l.states {
		counted[state]++
	}
	require.EqualValues(l, l.accepted, ledger.Accepted, "%s: accepted", l.what)
	for state, n := range map[tracking.State]int64{
		tracking.StateDelivered: ledger.Delivered, tracking.StateFailed: ledger.Failed, tracking.StateFiltered: ledger.Filtered,
		tracking.StatePending: ledger.Pending + ledger.Lost,
	} {
		require.EqualValues(l, counted[state], n, "%s: %v of %s", l.what, state, inWords(ledger))
	}
}

func (l *life) append() {
	l.what += "append"
	calls := make([]tracking.Call, 1+l.random.Intn(200))
	for i := range calls {
		id := fmt.Sprint("m", l.accepted+i)
		calls[i] = tracking.Call{Source: "web", ID: id, Body: fmt.Appendf(nil, `{"type":"track","messageId":%q}`, id)}
	}
	err := l.journal.Append(l.ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls})
	if errors.Is(err, journal.ErrFull) {
		return
	}
	l.no(err)
	l.accepted += len(calls)
	for _, c := range calls {
		l.states[c.ID] = tracking.StatePending
	}
}

// work finishes an entry if one is available.
func (l *life) work() {
	l.what += "work"
	ctx, cancel := context.WithTimeout(l.ctx, 100*time.Millisecond)
	defer cancel()
	lease, err := l.reader.Next(ctx, journal.Want{})
	if err != nil {
		return
	}
	l.end(lease, func() tracking.State { return tracking.State(l.random.Intn(4)) })
}

func (l *life) end(lease journal.Lease, decide func() tracking.State) {
	l.Helper()
	result := journal.Result{RetryAt: time.Now().Add(time.Duration(l.random.Intn(2000)) * time.Millisecond)}
	for _, c := range lease.Entry().Calls {
		require.Equal(l, tracking.StatePending, l.states[c.ID], "%s: %s comes again", l.what, c.ID)
		l.states[c.ID] = decide()
		result.Outcomes = append(result.Outcomes, tracking.Outcome{State: l.states[c.ID], Reason: "because"})
		result.Kept = append(result.Kept, true)
	}
	l.no(lease.Finish(l.ctx, result))
}

// replay replays some failed or filtered calls. In half of the cases, it kills the process after
// the replay was stored.
func (l *life) replay() {
	l.what += "replay"
	from := []tracking.State{tracking.StateFailed, tracking.StateFiltered}[l.random.Intn(2)]
	failed := listedAs(l.T, l.journal, from)
	listed := map[string]bool{}
	for _, c := range failed {
		require.Equal(l, from, l.states[c.ID], "%s: %s is listed as %v", l.what, c.ID, from)
		require.False(l, listed[c.ID], "%s: %s is listed twice", l.what, c.ID)
		listed[c.ID] = true
	}
	for id, state := range l.states {
		require.False(l, state == from && !listed[id], "%s: %s is %v and is not listed", l.what, id, from)
	}
	failed = failed[:min(len(failed), record.PartCalls)]
	if len(failed) == 0 {
		return
	}
	failed = failed[:1+l.random.Intn(len(failed))]
	if l.random.Intn(2) == 0 {
		l.no(l.journal.Replay(l.ctx, "crm", failed, nil, from))
	} else {
		look, err := l.journal.prepareReplay(l.ctx, "crm", failed, from)
		l.no(err)
		_, err = l.journal.storeReplay(l.ctx, look, failed, nil)
		l.no(err)
		defer l.kill()
	}
	for _, c := range failed {
		l.states[c.ID] = tracking.StatePending
	}
}

func (l *life) trim() {
	l.what += "trim"
	l.no(l.journal.Trim(l.ctx))
}

func (l *life) close() {
	l.what += "close"
	l.no(l.journal.Close())
	l.open(false)
}

// kill opens a copy of the current files, which are in the same state as after a kill.
func (l *life) kill() {
	l.what += "kill"
	l.copy()
	l.open(false)
}

func (l *life) copy() {
	l.Helper()
	left, err := Copy(l.dir, l.TempDir)
	l.no(err)
	l.no(l.journal.Close())
	l.no(os.RemoveAll(l.dir)) // the test makes many copies
	l.dir = left
}

// damage flips a bit or removes a block after a kill or close. It then accepts the loss, and reads
// the number of lost calls from the ledger. finish checks which calls are lost.
func (l *life) damage() {
	l.what += "damage"
	l.no(l.journal.snapshot(l.ctx, true))
	if l.random.Intn(2) == 0 {
		l.copy()
	} else {
		l.no(l.journal.Close())
	}
	var files []string
	l.no(filepath.WalkDir(l.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && (strings.HasSuffix(path, ".blk") || l.random.Intn(4) == 0) && !strings.Contains(path, "damaged") {
			files = append(files, path)
		}
		return err
	}))
	file := files[l.random.Intn(len(files))]
	data, err := os.ReadFile(file)
	l.no(err)
	if len(data) == 0 || strings.Contains(file, record.StreamFailed) {
		l.what += " nothing"
	} else if at := l.random.Intn(len(data)); l.random.Intn(5) == 0 && strings.HasSuffix(file, ".blk") {
		l.what += " removes " + file
		l.no(os.Remove(file))
	} else {
		l.what += fmt.Sprintf(" flips byte %d of %s", at, file)
		data[at] ^= 1 << l.random.Intn(8)
		l.no(os.WriteFile(file, data, 0o600))
	}
	l.open(true)
}

// finish delivers the remaining calls. It checks that the number of missing calls is equal to the
// number of lost calls in the ledger.
func (l *life) finish() {
	l.Helper()
	ledger := l.ledger()
	for left := ledger.Pending; left > 0; {
		lease, err := l.reader.Next(l.ctx, journal.Want{})
		l.no(err)
		left -= int64(len(lease.Entry().Calls))
		l.end(lease, func() tracking.State { return tracking.StateDelivered })
	}
	missing := slices.DeleteFunc(slices.Collect(maps.Keys(l.states)), func(id string) bool { return l.states[id] != tracking.StatePending })
	l.check()
	ledger = l.ledger()
	require.Len(l, missing, int(ledger.Lost), "%s: %s", l.what, inWords(ledger))
	l.Logf("%s", inWords(ledger))
}
