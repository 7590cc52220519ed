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

// A Service takes audiences, computed traits and deletion requests, and makes
// the calls that tell destinations of them. Its methods may be called from many
// goroutines at once.
type Service struct {
	config   Config
	state    state.Store
	started  time.Time
	work     *workers
	sorts    chan struct{} // one token for each list being read
	outcomes outcomes

	// What follows is used by waiting alone.
	cleaned   time.Time            // when what was given up was deleted
	completed map[string]time.Time // when deletion requests were completed, by key
}

// A Config is what a Service works with.
type Config struct {
	Journal  callStore
	State    state.Store
	Known    knownCalls
	Observer event.Observer
	Logger   *slog.Logger
	// Settings returns the settings that apply now.
	Settings func() settings.Settings
	// AnyWriteKey says that a source need not be in the settings.
	AnyWriteKey bool
	// SeenSources returns the sources of the calls that are remembered.
	SeenSources func() []string
	// Instance names this process among those that share State.
	Instance string
	// TempDir is where lists are sorted; empty is the system's.
	TempDir string
	// BatchCalls is how many calls are stored at once, at most. Defaults to 500.
	BatchCalls int
}

// A callStore is what is needed here of a Journal.
type callStore interface {
	Append(ctx context.Context, b event.Batch) error
	Ledger(ctx context.Context) ([]tracking.Ledger, error)
	Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error
	Replay(ctx context.Context, destination string, calls []tracking.Call, traces tracecontext.List, from tracking.State) error
}

// knownCalls are the calls that are recognised when they are stored again.
type knownCalls interface {
	// Without returns a batch without the calls that are known.
	Without(b event.Batch) event.Batch
	// Add makes a call known.
	Add(source, messageID string)
}

// await looks at what is stored under a key, and again each time that it was changed,
// until done is true or fails.
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

// A turn is the right of this process to work on a record, which it keeps as long as it
// notes from time to time how far it is.
type turn[R any, P claimable[R]] struct {
	*Service
	key    string    // of the record
	record R         // as it was stored last
	stored time.Time // when that was
}

// claimable is a pointer to a record that holds a claim.
type claimable[R any] interface {
	*R
	claimed() *claim
}

// begin takes the turn, unless another process has it or begin says that there is no work.
func (t *turn[R, P]) begin(ctx context.Context, begin func(*R) error) (err error) {
	t.stored = time.Now()
	t.record, err = state.Update(ctx, t.state, t.key, func(r *R) error {
		c := P(r).claimed()
		if c.Secret == "" {
			return errNoWork // forgotten
		}
		if err := begin(r); err != nil {
			return err
		}
		return c.take(t.config.Instance)
	})
	return err
}

// note changes the record, if it is still this process's turn.
func (t *turn[R, P]) note(ctx context.Context, change func(*R)) error {
	now := time.Now()
	record, err := state.Update(ctx, t.state, t.key, func(r *R) error {
		if err := P(r).claimed().renew(*P(&t.record).claimed()); err != nil {
			return err
		}
		change(r)
		return nil
	})
	if err == nil {
		t.record, t.stored = record, now
	}
	return err
}

// release lets another process go on at once where this one is interrupted.
func (t *turn[R, P]) release() {
	if !t.work.stopping() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.note(ctx, func(r *R) { P(r).claimed().end() }) // else the lease runs out
}
