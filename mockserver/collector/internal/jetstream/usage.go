package jetstream

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/attempts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/kv"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A usage follows how many bytes CALLS has. The server is asked now and then;
// between, what this process stores is added.
type usage struct {
	mu       sync.Mutex // guards what follows
	stored   int64
	underway int64 // of calls that are being stored
	diskFull bool  // the ballast was given up
}

// begin counts n bytes that are about to be stored, or returns ErrJournalFull or
// errDiskFull. end must follow.
func (u *usage) begin(n, limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.full(limit); err != nil {
		return err
	}
	u.underway += n
	return nil
}

// end says whether n bytes that begin has counted were stored.
func (u *usage) end(n int64, stored bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.underway -= n; stored {
		u.stored += n
	}
}

// room returns ErrJournalFull or errDiskFull where no calls may be stored.
func (u *usage) room(limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.full(limit)
}

// full is room with the lock held.
func (u *usage) full(limit int64) error {
	if u.diskFull {
		return errDiskFull
	}
	if used := u.stored + u.underway; used >= limit {
		return fmt.Errorf("%w: it holds %d of %d bytes", journal.ErrFull, used, limit)
	}
	return nil
}

func (u *usage) setDiskFull(full bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.diskFull = full
}

func (u *usage) isDiskFull() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.diskFull
}

func (u *usage) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored += int64(n)
}

func (u *usage) set(stored int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored = stored
}

func (u *usage) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored + u.underway
}

// trimIfShort has old calls removed where space gets short.
func (j *Journal) trimIfShort() {
	if float64(j.incoming.usage.bytes()) > trimAbove*float64(j.options.MaxBytes) {
		store.Poke(j.trimmer.soon)
	}
}

// measure asks the server.
func (j *Journal) measure(ctx context.Context) error {
	calls, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return err
	}
	j.incoming.usage.set(int64(calls.Bytes))
	return nil
}

// errDiskFull refuses calls while the ballast is given up.
var errDiskFull = fmt.Errorf("journal: calls are refused until the disk has room: %w", syscall.ENOSPC)

// Stats say how much is stored.
type Stats struct {
	Calls, Outcomes, Retries, Failed, Attempts Stored
	// MaxBytes is what Calls may have before Append refuses.
	MaxBytes int64
}

// Stored is what one stream has.
type Stored struct {
	Messages uint64
	Bytes    uint64
}

// Stats asks the server how much is stored.
func (j *Journal) Stats(ctx context.Context) (Stats, error) {
	s := Stats{MaxBytes: j.options.MaxBytes}
	for kind, stored := range map[string]*Stored{
		record.StreamCalls: &s.Calls, record.StreamOutcomes: &s.Outcomes, record.StreamRetry: &s.Retries, record.StreamFailed: &s.Failed, record.StreamAttempts: &s.Attempts,
	} {
		state, err := j.Measure(ctx, kind)
		if err != nil {
			return s, err
		}
		*stored = Stored{state.Msgs, state.Bytes}
	}
	return s, nil
}

// Health implements journal.Journal.
func (j *Journal) Health(ctx context.Context) (journal.Health, error) {
	return journal.Health{Bytes: j.incoming.usage.bytes(), LimitBytes: j.options.MaxBytes, Servers: j.conns.servers.All(), Scrub: j.scrubber.Health()}, j.Ready(ctx)
}

// Settings returns a store for the settings that are made at run time, shared by
// all who share the journal. It is usable until the journal is closed.
func (j *Journal) Settings(ctx context.Context) (state.Store, error) {
	return j.buckets().Settings(ctx)
}

// State returns a store for deletion requests, audiences and computed traits,
// shared by all who share the journal. It is usable until the journal is closed.
func (j *Journal) State(ctx context.Context) (state.Store, error) {
	return j.buckets().State(ctx)
}

func (j *Journal) buckets() *kv.Buckets {
	return kv.New(j.Store, j.noteValue, j.uncounted)
}

// noteValue notes a value a second time. Where the server syncs now and then a power cut
// may take the value, and not the note: so there is none.
func (j *Journal) noteValue(a record.Accepted) {
	if j.options.SyncInterval > 0 {
		return
	}
	if err := j.local.note(a); err != nil {
		j.Log.Debug("what was stored is noted once only", "error", err)
	}
}

// Attempts returns the journal's log of attempts.
func (j *Journal) Attempts() *attempts.Log { return j.attempts }
