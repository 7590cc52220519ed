package users

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A Service manages audiences, computed traits and deletion requests, and creates the calls
// that notify destinations. Its methods are safe for concurrent use.
type Service struct {
	config   Config
	state    state.Store
	started  time.Time
	work     *workers
	sorts    chan struct{} // contains one value per list that is being read
	outcomes outcomes

	// The fields below are used only by the method waiting.
	cleaned   time.Time            // time of the last deletion of abandoned uploads
	completed map[string]time.Time // completion times of deletion requests, by key
}

// A Config configures a Service.
type Config struct {
	Journal  journal.Journal
	State    state.Store
	Known    knownCalls
	Observer event.Observer
	Logger   *slog.Logger
	// Settings returns the current settings.
	Settings func() settings.Settings
	// StoredID returns the function that converts a user ID to the ID in the stored calls of a
	// source.
	StoredID func(source string) func(id string) string
	// AnyWriteKey accepts sources that are not in the settings.
	AnyWriteKey bool
	// SeenSources returns the sources of the retained calls.
	SeenSources func() []string
	// Instance identifies this process among the processes that share State.
	Instance string
	// TempDir is the directory for sorting lists. Defaults to os.TempDir.
	TempDir string
	// BatchCalls is the maximum number of calls per batch. Defaults to 500.
	BatchCalls int
}

// knownCalls contains the messageIds of stored calls.
type knownCalls interface {
	// Without returns the batch without its known calls.
	Without(b event.Batch) event.Batch
	// Add marks a call as known.
	Add(source, messageID string)
}

// A lease gives this process the right to work on a record. The method note renews it.
type lease[R any, P claimable[R]] struct {
	*Service
	key    string    // key of the record
	record R         // last stored version of the record
	stored time.Time // time when record was stored
}

// claimable is a pointer to a record with a claim.
type claimable[R any] interface {
	*R
	claimed() *claim
}

// begin acquires the lease. It returns errNoWork if another process has the lease or if the
// function begin does.
func (l *lease[R, P]) begin(ctx context.Context, begin func(*R) error) (err error) {
	l.stored = time.Now()
	l.record, err = state.Update(ctx, l.state, l.key, func(r *R) error {
		c := P(r).claimed()
		if c.Secret == "" {
			return errNoWork // the record was deleted
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

// release ends the lease if this process is stopping, so that another process can continue.
func (l *lease[R, P]) release() {
	if !l.work.stopping() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.note(ctx, func(r *R) { P(r).claimed().end() }) // if it fails, the lease expires
}
