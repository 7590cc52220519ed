package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	snapshotFormat = 1
	snapshotSlots  = 2
	// A changed ledger is stored every second. snapshotShare limits the time for encoding to
	// 1/20 of the total time. The time for writing is not included, so a slow disk does not make
	// snapshots less frequent. snapshotRest is the shortest pause between two snapshots.
	snapshotShare = 20
	snapshotRest  = 500 * time.Millisecond
)

// A snapshot is a file in the data directory that contains the ledger, the base, and the last
// message of each other stream. It shows which data is missing if streams are damaged. If the
// snapshot is damaged, it can be restored from the streams. All data that a snapshot refers to was
// synced before the snapshot.
//
// Two files are written alternately, so one is always valid. On a cluster, checkpoints replace
// snapshots.
type snapshot struct {
	number uint64
	ledger *ledger.Ledger
	base   *ledger.Ledger // may be nil
	marks  map[string]extentMark
}

// An extentMark is the minimum content of a stream.
type extentMark struct {
	last     uint64 // sequence number of the last message
	messages uint64 // number of values in a bucket; 0 if unknown
}

// A snapshotStore stores snapshots.
type snapshotStore struct {
	mu     pause.Lock // guards the fields below; held during a snapshot or a deletion of values
	number uint64     // number of the last snapshot
	base   []byte     // encoded base; nil if unknown
	stored *progress  // position of the last snapshot; nil if it is outdated
	next   time.Time
}

// A progress is the journal's position. It changes whenever data is stored.
type progress struct {
	calls, outcomes uint64 // the ledger's position
	changes         uint64 // see store.Store
}

func snapshotFile(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("journal.account.%d", number%snapshotSlots))
}

// snapshot stores the ledger if it has changed and the last snapshot is old enough, or if now is
// true. It fails if the process no longer holds the directory's lock. Without a directory, it does
// nothing.
func (j *Journal) snapshot(ctx context.Context, now bool) error {
	if j.local == nil {
		return nil
	}
	if err := j.local.lock.Check(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	s := &j.local.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	at := j.progress()
	if s.stored != nil && *s.stored == at || !now && time.Now().Before(s.next) {
		return nil
	}
	err := j.storeSnapshot(ctx, true)
	if err == nil {
		s.stored = &at
	}
	return err
}

func (j *Journal) progress() progress {
	calls, outcomes := j.ledger.Position()
	return progress{calls, outcomes, j.Changes.Load()}
}

// storeSnapshot stores the ledger. The caller must hold the lock. count is false while values are
// being deleted. The snapshot then does not contain the numbers of values.
func (j *Journal) storeSnapshot(ctx context.Context, count bool) error {
	s := &j.local.snapshots
	s.stored = nil
	began := time.Now()
	marks, err := j.measureStreams(ctx, count)
	if err != nil {
		return err
	}
	calls, _ := j.ledger.Position()
	encoding := time.Now()
	data := record.AppendNumbers([]byte{snapshotFormat}, s.number+1, uint64(len(marks)))
	for name, m := range marks {
		data = record.AppendNumbers(record.AppendText(data, name), m.last, m.messages)
	}
	data = record.AppendText(data, j.ledger.Encode())
	data = record.AppendText(data, s.base)
	data = datadir.Seal(s2.Encode(nil, data))
	encoded := time.Since(encoding)
	if err := j.syncStreams(began); err != nil {
		return err
	}
	if err := datadir.Overwrite(snapshotFile(j.options.Dir, s.number+1), data); err != nil {
		return fmt.Errorf("journal: storing the ledger: %w", err)
	}
	s.number, s.next = s.number+1, time.Now().Add(max(snapshotRest, snapshotShare*encoded))
	err = j.local.recent.Forget(func(a record.Accepted) bool {
		if a.Calls == 0 {
			return a.Seq <= marks[a.Source].last
		}
		return a.Seq <= calls
	})
	if err != nil {
		j.Log.Debug("shortening the recent file failed", "error", err)
	}
	return nil
}

// withoutCounts stores a snapshot without the numbers of values. Call it before deleting values. It
// blocks further snapshots until counted is called.
func (j *Journal) withoutCounts(ctx context.Context) (counted func(), err error) {
	if j.local == nil {
		return func() {}, nil
	}
	j.local.snapshots.mu.Lock()
	if err := j.storeSnapshot(ctx, false); err != nil {
		j.local.snapshots.mu.Unlock()
		return nil, err
	}
	return j.local.snapshots.mu.Unlock, nil
}

// measureStreams returns the last messages of the streams that the ledger does not read.
func (j *Journal) measureStreams(ctx context.Context, count bool) (map[string]extentMark, error) {
	marks := map[string]extentMark{}
	for _, name := range []string{
		j.Names.Stream(record.StreamFailed), j.Names.Stream(record.StreamState), j.Names.Bucket(record.BucketSettings), j.Names.Bucket(record.BucketState),
	} {
		info, err := j.JS.Info(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("journal: measuring %s: %w", name, err)
		}
		m := extentMark{last: info.State.LastSeq}
		if count && strings.HasPrefix(name, "KV_") {
			m.messages = info.State.Msgs
		}
		marks[name] = m
	}
	return marks, nil
}

// syncStreams syncs recent blocks if the server does not sync before it responds.
func (j *Journal) syncStreams(before time.Time) error {
	if j.options.SyncInterval <= 0 {
		return nil
	}
	for _, block := range j.local.files.Glob("*/msgs/*.blk") {
		name := filepath.Base(filepath.Dir(filepath.Dir(block)))
		info, err := os.Stat(block)
		if err != nil || j.local.files.IsVolatile(name) || info.ModTime().Before(before.Add(-2*j.options.SyncInterval-time.Minute)) {
			continue // the block was removed or synced by the server
		}
		if err := datadir.SyncFile(block); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("journal: syncing %s: %w", block, err)
		}
	}
	return nil
}

// loadSnapshot returns the newest valid snapshot, or nil.
func (j *Journal) loadSnapshot() *snapshot {
	var newest *snapshot
	for i := range uint64(snapshotSlots) {
		data, err := os.ReadFile(snapshotFile(j.options.Dir, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var s *snapshot
		if err == nil {
			s, err = decodeSnapshot(data)
		}
		if err != nil {
			j.Log.Warn("skipping an unreadable snapshot; an older one or the streams are read instead", "file", snapshotFile(j.options.Dir, i), "error", err)
		} else if newest == nil || s.number > newest.number {
			newest = s
		}
	}
	return newest
}

func decodeSnapshot(data []byte) (*snapshot, error) {
	data, err := datadir.Unseal(data)
	if err == nil {
		data, err = s2.Decode(nil, data)
	}
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[0] != snapshotFormat {
		return nil, fmt.Errorf("it has format %.1x, not %d", data, snapshotFormat)
	}
	d := record.Decoder{Rest: data[1:]}
	s := &snapshot{number: d.Uint(), marks: map[string]extentMark{}}
	for range d.Int(len(data)) {
		name := d.Text()
		s.marks[name] = extentMark{d.Uint(), d.Uint()}
	}
	encoded, base := d.Bytes(), d.Bytes()
	if d.Failed || len(d.Rest) > 0 {
		return nil, datadir.ErrUnsealed
	}
	if s.ledger, err = ledger.Decode(encoded); err == nil && len(base) > 0 {
		s.base, err = ledger.Decode(base)
	}
	return s, err
}

// applyNoted applies recorded bucket values to the snapshot, and returns the recorded calls.
func (s *snapshot) applyNoted(noted []record.Accepted) (accepted []record.Accepted) {
	return slices.DeleteFunc(noted, func(a record.Accepted) bool {
		if a.Calls == 0 && s != nil {
			m := s.marks[a.Source]
			m.last = max(m.last, a.Seq)
			s.marks[a.Source] = m
		}
		return a.Calls == 0
	})
}

// removeSnapshots removes all snapshots because they are no longer valid.
func (j *Journal) removeSnapshots() error {
	if j.local == nil {
		return nil
	}
	j.local.snapshots.mu.Lock()
	defer j.local.snapshots.mu.Unlock()
	for i := range uint64(snapshotSlots) {
		if err := os.RemoveAll(snapshotFile(j.options.Dir, i)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	j.local.snapshots.stored = nil
	return nil
}

// missingFrom describes the data of a snapshot that is missing in the streams.
func (j *Journal) missingFrom(ctx context.Context, s *snapshot) ([]string, error) {
	var all []string
	for name, m := range s.marks {
		info, err := j.JS.Info(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // the stream belongs to a journal with another name
		}
		if err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		state := info.State
		if state.LastSeq < m.last {
			all = append(all, fmt.Sprintf("%s ends at message %d, but %d was stored", name, state.LastSeq, m.last))
		}
		if state.Msgs < m.messages {
			all = append(all, fmt.Sprintf("%s has %d of %d values", name, state.Msgs, m.messages))
		}
	}
	slices.Sort(all)
	return all, nil
}

// snapshotNow stores a snapshot after a control message or a replay, so that the effect of the
// message is stored twice.
func (j *Journal) snapshotNow(ctx context.Context) {
	if err := j.snapshot(ctx, true); err != nil {
		j.Log.Warn("storing the ledger failed; will retry", "error", err)
	}
}
