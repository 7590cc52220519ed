package jetstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A sample is a small data directory with known content.
type sample struct {
	dir     string
	bySeq   map[uint64][]string // IDs of pending calls, keyed by the sequence number of their message
	failed  []string            // IDs of calls that are listed as failed
	ledger  tracking.Ledger
	values  map[string]string // values in the state bucket
	written map[string]uint64 // revisions of the values
	ending  string
	unseen  bool // whether data was stored after the newest snapshot
}

// endings are the ways to end the process of a sample: closed, killed, killed before the next
// snapshot ("unseen"), or killed before the snapshot of a replay ("replaying").
var endings = []string{"closed", "killed", "unseen", "replaying"}

// newSample creates a directory with unattempted, retried, delivered, filtered, failed and
// replayed calls.
func newSample(t *testing.T, ending string) *sample {
	t.Helper()
	s := &sample{dir: t.TempDir(), bySeq: map[uint64][]string{}, values: map[string]string{}, written: map[string]uint64{}, ending: ending}
	dir := t.TempDir()
	j, err := Open(within(t), Options{Dir: dir})
	require.NoError(t, err)
	r, err := j.Attach(within(t), "crm", nil)
	require.NoError(t, err)
	if ending == "unseen" {
		s.pauseSnapshots(j)
	}
	next := func(decide func(i int) tracking.State) {
		l, err := r.Next(within(t), journal.Want{})
		require.NoError(t, err)
		result := journal.Result{RetryAt: time.Now().Add(2 * time.Second)}
		for i, c := range l.Entry().Calls {
			state := decide(i)
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: state, Reason: "because"})
			seq, _ := strconv.ParseUint(c.ID[1:strings.Index(c.ID, "-")], 10, 64)
			if state != tracking.StatePending {
				s.bySeq[seq] = slices.DeleteFunc(s.bySeq[seq], func(id string) bool { return id == c.ID })
			}
			if state == tracking.StateFailed {
				s.failed = append(s.failed, c.ID)
			}
		}
		require.NoError(t, l.Finish(within(t), result))
	}
	for range 8 {
		seq := j.seen.acked.Load() + 1
		calls := make([]tracking.Call, 5)
		for i := range calls {
			id := fmt.Sprintf("m%d-%d", seq, i)
			calls[i] = tracking.Call{Source: "web", ID: id, Body: fmt.Appendf(nil, `{"type":"track","messageId":%q}`, id)}
			s.bySeq[seq] = append(s.bySeq[seq], id)
		}
		require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
	}
	next(func(int) tracking.State { return tracking.StateDelivered })
	next(func(i int) tracking.State { return tracking.State(i % 4) })
	next(func(int) tracking.State { return tracking.StateFailed })
	next(func(i int) tracking.State { return tracking.State(i % 2) })
	replayed := listedAsFailed(t, j)[:2]
	switch ending {
	case "unseen":
		replayed = nil // a replay first stores a snapshot
	case "replaying":
		require.NoError(t, j.snapshot(within(t), true))
		s.pauseSnapshots(j)
		replayUnseen(t, j, replayed)
	default:
		require.NoError(t, j.Replay(within(t), "crm", replayed, nil, tracking.StateFailed))
	}
	for _, c := range replayed {
		s.bySeq[j.seen.acked.Load()] = append(s.bySeq[j.seen.acked.Load()], c.ID)
		s.failed = slices.DeleteFunc(s.failed, func(id string) bool { return id == c.ID })
	}
	state := j.State()
	for i := range 4 {
		s.putState(t, state, fmt.Sprintf("k%d", i%3), fmt.Sprintf("value %d", i))
	}
	require.NoError(t, j.Settings().Put(within(t), "settings", []byte(`{"paused":["crm"]}`)))
	ledgers, err := j.Ledger(within(t))
	require.NoError(t, err)
	s.ledger = ledgers[0]
	if !s.unseen {
		require.NoError(t, j.snapshot(within(t), true))
	}
	if ending != "closed" {
		require.NoError(t, CopyDir(s.dir, dir))
		require.NoError(t, j.Close())
		return s
	}
	require.NoError(t, j.Close())
	s.dir = dir
	return s
}

// pauseSnapshots postpones further snapshots.
func (s *sample) pauseSnapshots(j *Journal) {
	j.local.snapshots.mu.Lock()
	defer j.local.snapshots.mu.Unlock()
	j.local.snapshots.next = time.Now().Add(time.Hour)
	s.unseen = true
}

// replayUnseen replays failed calls of one source, as if the process had been killed before the
// snapshot of the replay.
func replayUnseen(t *testing.T, j *Journal, calls []tracking.Call) {
	t.Helper()
	look, err := j.prepareReplay(within(t), "crm", calls, tracking.StateFailed)
	require.NoError(t, err)
	stored, err := j.storeReplay(within(t), look, calls, nil)
	require.NoError(t, err)
	require.NoError(t, j.settleReplay(within(t), stored))
}

func (s *sample) putState(t *testing.T, state state.Store, key, value string) {
	t.Helper()
	require.NoError(t, state.Put(within(t), key, []byte(value)))
	_, revision, err := state.Get(within(t), key)
	require.NoError(t, err)
	s.values[key], s.written[key] = value, revision
}

// files returns the non-empty files of the directory.
func (s *sample) files(t *testing.T) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.dir, path)
		if info, e := entry.Info(); e == nil && info.Size() > 0 {
			files = append(files, name)
		}
		return err
	}))
	return files
}

// A blockRecord is the part of a block that contains a message, with the sequence number.
type blockRecord struct {
	from, to int
	seq      uint64
}

func recordsOf(block []byte) (all []blockRecord) {
	for at := 0; at < len(block); {
		r := blockRecord{from: at, to: at + int(binary.LittleEndian.Uint32(block[at:])&^(1<<31))}
		r.seq = binary.LittleEndian.Uint64(block[at+4:]) &^ (3 << 62)
		all = append(all, r)
		at = r.to
	}
	return all
}

// inRecord returns the sequence number of the record at a position in a block.
func inRecord(block []byte, at int) uint64 {
	for _, r := range recordsOf(block) {
		if at < r.to {
			return r.seq
		}
	}
	return 0
}

// TestEachFlippedBit flips bits of a small data directory. Each start must reject the directory or
// be correct. If the loss is accepted, only the pending calls of the corrupted record may be lost,
// and they must be counted. JOURNAL_FLIPS is the number of bits per file. JOURNAL_SEED selects the
// bits. By default, the test flips one bit in each file of a closed directory. In the directories of killed
// processes, it skips the files that TestEachDamagedRecord covers, and those whose content does not
// depend on how the process ended.
func TestEachFlippedBit(t *testing.T) {
	t.Parallel()
	flips, _ := strconv.Atoi(os.Getenv("JOURNAL_FLIPS"))
	seed, _ := strconv.ParseInt(os.Getenv("JOURNAL_SEED"), 10, 64)
	for _, ending := range endings {
		if ending == "replaying" && flips == 0 {
			continue // covered by TestEachDamagedRecord
		}
		s := newSample(t, ending)
		for n, file := range s.files(t) {
			if flips == 0 && ending != "closed" && (isDescription(file) || journalBlock.MatchString(filepath.ToSlash(file))) {
				continue // closed directories contain the same descriptions; TestEachDamagedRecord covers the blocks
			}
			t.Run(fmt.Sprintf("%s, %s", ending, strings.ReplaceAll(file, "/", " ")), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewSource(seed + int64(n)))
				data, err := os.ReadFile(filepath.Join(s.dir, file))
				require.NoError(t, err)
				isBlock := strings.HasSuffix(file, ".blk")
				for range max(flips, 1) {
					at, bit := random.Intn(len(data)), random.Intn(8)
					bad := slices.Clone(data)
					bad[at] ^= 1 << bit
					var hit []uint64
					if isBlock {
						hit = append(hit, inRecord(data, at))
					}
					s.try(t, file, bad, fmt.Sprintf("byte %d, bit %d (JOURNAL_SEED=%d)", at, bit, seed), hit...)
				}
			})
		}
	}
}

// isDescription reports whether a file describes a stream. Its content does not depend on the end of the
// process.
func isDescription(file string) bool { return strings.HasPrefix(filepath.Base(file), "meta.") }

var journalBlock = regexp.MustCompile(`-(CALLS|OUTCOMES)/msgs/.*\.blk$`)

// TestEachDamagedRecord flips one bit of each message of CALLS and OUTCOMES, in separate runs.
func TestEachDamagedRecord(t *testing.T) {
	t.Parallel()
	for _, ending := range endings[1:] {
		s := newSample(t, ending)
		for _, file := range s.files(t) {
			if !journalBlock.MatchString(filepath.ToSlash(file)) {
				continue
			}
			block, err := os.ReadFile(filepath.Join(s.dir, file))
			require.NoError(t, err)
			for _, r := range recordsOf(block) {
				t.Run(fmt.Sprintf("%s, %s, record %d", ending, strings.ReplaceAll(file, "/", " "), r.seq), func(t *testing.T) {
					t.Parallel()
					bad, middle := slices.Clone(block), (r.from+r.to)/2
					bad[middle] ^= 1
					s.try(t, file, bad, fmt.Sprintf("byte %d", middle), r.seq)
				})
			}
		}
	}
}

// TestRunsOfDamagedRecords corrupts either the first messages or the last messages of CALLS. Some
// calls of these messages are delivered, some have failed, and some wait for a retry.
func TestRunsOfDamagedRecords(t *testing.T) {
	t.Parallel()
	s := newSample(t, "unseen")
	file := filepath.Join("jetstream", "$G", "streams", "analytics-CALLS", "msgs", "1.blk")
	block, err := os.ReadFile(filepath.Join(s.dir, file))
	require.NoError(t, err)
	records := recordsOf(block)[1:] // without the first record, which attaches the destination
	for i := range records {
		for _, run := range [][]blockRecord{records[:i+1], records[i:]} {
			t.Run(fmt.Sprintf("%d to %d", run[0].seq, run[len(run)-1].seq), func(t *testing.T) {
				t.Parallel()
				bad := slices.Clone(block)
				var hit []uint64
				for _, r := range run {
					bad[(r.from+r.to)/2] ^= 1
					hit = append(hit, r.seq)
				}
				s.try(t, file, bad, t.Name(), hit...)
			})
		}
	}
}

// TestInterruptedAcceptLossIsRepeated kills a process that accepts a loss at the end of CALLS. The
// kill occurs after the loss was stored, and before the placeholders were stored.
func TestInterruptedAcceptLossIsRepeated(t *testing.T) {
	t.Parallel()
	s := newSample(t, "unseen")
	file := filepath.Join(s.dir, "jetstream", "$G", "streams", "analytics-CALLS", "msgs", "1.blk")
	block, err := os.ReadFile(file)
	require.NoError(t, err)
	last := recordsOf(block)[3:] // the records after the delivered calls
	lost := int64(0)
	for _, r := range last {
		lost += int64(len(s.bySeq[r.seq]))
	}
	for range 2 {
		require.NoError(t, os.WriteFile(file, block[:last[0].from], 0o600))
		j, err := Open(within(t), Options{Dir: s.dir})
		if err == nil {
			_ = j.Close()
		}
		require.ErrorIs(t, err, record.ErrDamaged)
		j, err = Open(within(t), Options{Dir: s.dir, AcceptLoss: true})
		require.NoError(t, err)
		l := s.proved(within(t), t, j, "")
		require.NoError(t, j.Close())
		l.OldestPending = s.ledger.OldestPending
		want := s.ledger
		want.Pending, want.Lost = want.Pending-lost, lost
		require.Equal(t, want, l)
		for _, name := range []string{"journal.account.0", "journal.account.1", "journal.clean", "journal.recent"} {
			require.NoError(t, os.Remove(filepath.Join(s.dir, name)))
		}
		require.NoError(t, os.Remove(filepath.Join(filepath.Dir(file), "index.db")))
	}
}

// try opens the directory with one replaced file. Only data of the records in hit may be lost.
func (s *sample) try(t *testing.T, file string, bad []byte, what string, hit ...uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	defer func() { require.NoError(t, os.RemoveAll(dir)) }() // the test makes many copies
	require.NoError(t, CopyDir(dir, s.dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), bad, 0o600))
	j, err := Open(ctx, Options{Dir: dir})
	refused := errors.Is(err, record.ErrDamaged)
	if refused {
		require.Contains(t, err.Error(), "--accept-loss", what)
		j, err = Open(ctx, Options{Dir: dir, AcceptLoss: true})
	}
	require.NoError(t, err, what)
	defer func() { require.NoError(t, j.Close()) }()
	lost := []string{}
	if refused && strings.Contains(file, "CALLS") {
		for _, seq := range hit {
			lost = append(lost, s.bySeq[seq]...)
		}
	}
	s.check(ctx, t, j, lost, refused && s.ending == "unseen" && strings.Contains(file, "OUTCOMES"), what)
	for key, value := range s.values {
		got, _, err := j.State().Get(ctx, key)
		gone := refused && strings.Contains(file, "state") && slices.Contains(hit, s.written[key])
		if gone && errors.Is(err, state.ErrNotFound) {
			continue
		}
		require.NoError(t, err, "%s: value %s", what, key)
		if gone && key == "k0" {
			value = "value 0" // the previous value is used
		}
		require.Equal(t, value, string(got), "%s: value %s", what, key)
	}
	require.NoError(t, j.Close())
	j, err = Open(ctx, Options{Dir: dir})
	require.NoError(t, err, "%s: what was accepted is refused again", what)
	s.proved(ctx, t, j, what)
}

// check delivers all pending calls and compares the journal with the expected content. If again is
// true, outcomes may be missing, and delivered calls may be pending again.
func (s *sample) check(ctx context.Context, t *testing.T, j *Journal, lost []string, again bool, what string) {
	t.Helper()
	l := s.proved(ctx, t, j, what)
	if l.Accepted != s.ledger.Accepted || l.Lost != int64(len(lost)) || !again && (l.Pending != s.ledger.Pending-l.Lost || l.Delivered != s.ledger.Delivered) {
		t.Fatalf("%s: the ledger is %s, and was %s; %d calls are in what is damaged", what, inWords(l), inWords(s.ledger), len(lost))
	}
	var failed []string
	for _, c := range listedAsFailed(t, j) {
		failed = append(failed, c.ID)
	}
	require.Len(t, failed, int(l.Failed), "%s: listed as failed", what)
	if !again {
		require.ElementsMatch(t, s.failed, failed, "%s: listed as failed", what)
	}
	want := slices.Concat(slices.Collect(maps.Values(s.bySeq))...)
	want = slices.DeleteFunc(want, func(id string) bool { return slices.Contains(lost, id) })
	r, err := j.Attach(ctx, "crm", nil)
	require.NoError(t, err, what)
	var got []string
	entries := map[string]string{} // keyed by call
	for len(got) < int(l.Pending) {
		lease, err := r.Next(ctx, journal.Want{})
		require.NoError(t, err, "%s: %v came of %v", what, got, want)
		for _, c := range lease.Entry().Calls {
			require.Empty(t, entries[c.ID], "%s: %s came again, as entry %s, though what became of it is stored; it came as the entry that is shown", what, c.ID, lease.Entry().ID)
			entries[c.ID] = lease.Entry().ID
		}
		result := journal.Result{}
		for _, c := range lease.Entry().Calls {
			got = append(got, c.ID)
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: tracking.StateDelivered})
		}
		require.NoError(t, lease.Finish(ctx, result))
	}
	if again {
		require.Subset(t, got, want, what)
	} else {
		require.ElementsMatch(t, want, got, what)
	}
	if l = s.proved(ctx, t, j, what); l.Pending != 0 {
		t.Fatalf("%s: all that is stored was delivered, and the ledger is %s", what, inWords(l))
	}
}

// proved verifies the journal and returns the ledger.
func (s *sample) proved(ctx context.Context, t *testing.T, j *Journal, what string) tracking.Ledger {
	t.Helper()
	all, err := j.Verify(ctx)
	require.NoError(t, err, what)
	require.Len(t, all, 1, what)
	named := int64(0)
	for _, l := range all[0].Losses {
		require.NotEmpty(t, l.Cause)
		named += l.Calls
	}
	require.True(t, all[0].OK() && named == all[0].Lost, "%s: %+v", what, all[0])
	return all[0].Ledger
}

// TestMissingBlocksAreRejected removes and empties blocks of calls, settings and state.
func TestMissingBlocksAreRejected(t *testing.T) {
	t.Parallel()
	for _, ending := range endings {
		s := newSample(t, ending)
		for _, file := range s.files(t) {
			stream := strings.Split(filepath.ToSlash(file), "/")
			if !strings.HasSuffix(file, ".blk") || strings.HasSuffix(stream[3], record.StreamRetry) || strings.HasSuffix(stream[3], record.StreamAttempts) {
				continue
			}
			if s.unseen && !strings.HasSuffix(stream[3], record.StreamCalls) {
				continue // the block may be torn, or is in no snapshot
			}
			try := func(sync time.Duration, what string, do func(string) error) {
				t.Run(fmt.Sprintf("sync %v, %s, %s %s", sync, ending, stream[3], what), func(t *testing.T) {
					t.Parallel()
					s.tryWithoutBlock(t, stream[3], sync, func(dir string) error { return do(filepath.Join(dir, file)) })
				})
			}
			try(0, "removed", os.Remove)
			try(0, "emptied", func(path string) error { return os.Truncate(path, 0) })
			try(0, "missing stream", func(path string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(path))) })
			if !s.unseen { // the interval does not affect how missing data is found
				try(time.Second, "removed", os.Remove)
			}
		}
	}
}

// tryWithoutBlock opens a copy of the directory after remove has removed the only block of a stream.
func (s *sample) tryWithoutBlock(t *testing.T, stream string, sync time.Duration, remove func(dir string) error) {
	dir := t.TempDir()
	require.NoError(t, CopyDir(dir, s.dir))
	require.NoError(t, remove(dir))
	j, err := Open(within(t), Options{Dir: dir, SyncInterval: sync})
	if err == nil {
		_ = j.Close()
	}
	require.ErrorIs(t, err, record.ErrDamaged)
	require.ErrorContains(t, err, stream)

	j, err = Open(within(t), Options{Dir: dir, SyncInterval: sync, AcceptLoss: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	l := s.proved(within(t), t, j, stream)
	want := int64(0)
	if strings.HasSuffix(stream, record.StreamCalls) {
		want = s.ledger.Pending
	}
	require.Equal(t, want, l.Lost, inWords(l))
	require.Equal(t, s.ledger.Accepted, l.Accepted)
	require.NoError(t, j.Close())
	j, err = Open(within(t), Options{Dir: dir, SyncInterval: sync})
	require.NoError(t, err, "an accepted loss is rejected again")
	s.proved(within(t), t, j, stream)
}

// TestOldDamageIsRejectedWithSyncInterval corrupts synced and unsynced data of a killed process.
// Only unsynced data may be missing.
func TestOldDamageIsRejectedWithSyncInterval(t *testing.T) {
	t.Parallel()
	for ending, forgiven := range map[string]bool{"killed": false, "unseen": true} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			s := newSample(t, ending)
			file := filepath.Join(s.dir, "jetstream", "$G", "streams", "analytics-CALLS", "msgs", "1.blk")
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			clear(data[len(data)/2:])
			require.NoError(t, os.WriteFile(file, data, 0o600))
			j, err := Open(within(t), Options{Dir: s.dir, SyncInterval: time.Second})
			if !forgiven {
				require.ErrorIs(t, err, record.ErrDamaged)
				j, err = Open(within(t), Options{Dir: s.dir, SyncInterval: time.Second, AcceptLoss: true})
			}
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, j.Close()) })
			l := s.proved(within(t), t, j, ending)
			require.Positive(t, l.Lost)
			require.Equal(t, s.ledger.Accepted, l.Accepted)
		})
	}
}

func inWords(l tracking.Ledger) string { return fmt.Sprintf("%+v", l) }
