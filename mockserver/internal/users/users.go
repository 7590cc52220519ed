package users

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Service manages audiences, computed traits and deletion requests, and creates the calls
// that notify destinations. Its methods are safe for concurrent use.
type Service struct {
	config   Config
	state    state.Store
	started  time.Time
	work     *workers
	sorts    chan struct{} // one token per list being read
	outcomes outcomes

	// Used only by waiting.
	cleaned   time.Time            // last deletion of abandoned uploads
	completed map[string]time.Time // completion times of deletion requests, by key
}

// A Config configures a Service.
type Config struct {
	Journal  callStore
	State    state.Store
	Known    knownCalls
	Observer event.Observer
	Logger   *slog.Logger
	// Settings returns the current settings.
	Settings func() settings.Settings
	// AnyWriteKey accepts sources that are not in the settings.
	AnyWriteKey bool
	// SeenSources returns the sources of the retained calls.
	SeenSources func() []string
	// Instance identifies this process among those that share State.
	Instance string
	// TempDir is the directory for sorting lists. Defaults to the system's.
	TempDir string
	// BatchCalls is the maximum number of calls per batch. Defaults to 500.
	BatchCalls int
}

// callStore is the part of journal.Journal that this package uses.
type callStore interface {
	Append(ctx context.Context, b event.Batch) error
	Ledger(ctx context.Context) ([]tracking.Ledger, error)
	Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error
	Replay(ctx context.Context, destination string, calls []tracking.Call, traces tracecontext.List, from tracking.State) error
}

// knownCalls detects duplicates.
type knownCalls interface {
	// Without returns the batch without known calls.
	Without(b event.Batch) event.Batch
	// Add makes a call known.
	Add(source, messageID string)
}

// await calls done now and after each change of the value at key, until it returns true or an
// error.
func (u *Service) await(ctx context.Context, key string, done func() (bool, error)) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changes, err := u.state.Watch(watching, key)
	if err != nil {
		return err
	}
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if _, more := <-changes; !more {
			return ctx.Err()
		}
	}
}

// A lease gives this process the right to work on a record. It must be renewed with note.
type lease[R any, P claimable[R]] struct {
	*Service
	key    string    // of the record
	record R         // last stored version
	stored time.Time // time of the last store
}

// claimable is a pointer to a record with a claim.
type claimable[R any] interface {
	*R
	claimed() *claim
}

// begin acquires the lease, unless another process has it or begin returns errNoWork.
func (l *lease[R, P]) begin(ctx context.Context, begin func(*R) error) (err error) {
	l.stored = time.Now()
	l.record, err = state.Update(ctx, l.state, l.key, func(r *R) error {
		c := P(r).claimed()
		if c.Secret == "" {
			return errNoWork // deleted
		}
		if err := begin(r); err != nil {
			return err
		}
		return c.take(l.config.Instance)
	})
	return err
}

// note changes the record and renews the lease, unless the lease was lost.
func (l *lease[R, P]) note(ctx context.Context, change func(*R)) error {
	now := time.Now()
	record, err := state.Update(ctx, l.state, l.key, func(r *R) error {
		if err := P(r).claimed().renew(*P(&l.record).claimed()); err != nil {
			return err
		}
		change(r)
		return nil
	})
	if err == nil {
		l.record, l.stored = record, now
	}
	return err
}

// release ends the lease if this process is stopping, so that another one can continue.
func (l *lease[R, P]) release() {
	if !l.work.stopping() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.note(ctx, func(r *R) { P(r).claimed().end() }) // otherwise the lease expires
}
