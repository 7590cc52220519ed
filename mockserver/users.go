package mockserver

import (
	"context"
	"log/slog"
)

// A usersService takes audiences, computed traits and deletion requests, and makes
// the calls that tell destinations of them. Its methods may be called from many
// goroutines at once.
type usersService struct {
	config    usersConfig
	stopping  context.Context // ends with drain
	drain     context.CancelFunc
	syncs     *syncs
	deletions *deletions
}

// A usersConfig is what a usersService works with.
type usersConfig struct {
	Journal  callStore
	State    StateStore
	Known    knownCalls
	Observer Observer
	Logger   *slog.Logger
	// Settings returns the settings that apply now.
	Settings func() Settings
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
	Append(ctx context.Context, b Batch) error
	Ledger(ctx context.Context) ([]Ledger, error)
	Failed(ctx context.Context, destination string, yield func(FailedCall) bool) error
	Replay(ctx context.Context, destination string, calls []Call, from State) error
}

// knownCalls are the calls that are recognised when they are stored again.
type knownCalls interface {
	// without returns a batch without the calls that are known.
	without(b Batch) Batch
	// add makes a call known.
	add(source, messageID string)
}

// newUsersService returns a service that does nothing before start.
func newUsersService(config usersConfig) *usersService {
	if config.BatchCalls == 0 {
		config.BatchCalls = defaultBatchCalls
	}
	u := &usersService{config: config}
	u.stopping, u.drain = context.WithCancel(context.Background())
	u.syncs, u.deletions = newSyncs(u), newDeletions(u)
	return u
}

// start takes up what earlier processes left.
func (u *usersService) start() {
	u.syncs.start()
	u.deletions.start()
}

// stop ends the work, without waiting for what is under way at others. More calls
// may be delivered until then; endOutcomes follows once none are.
func (u *usersService) stop() {
	u.drain()
	u.syncs.work.stop()
	u.deletions.work.stop()
}

// endOutcomes stores the outcomes of notifications that have come since. It is called
// once, after stop and when no more deliveries end.
func (u *usersService) endOutcomes() { u.deletions.endOutcomes() }

// Observe implements Observer: it takes the outcomes of notifications.
func (u *usersService) Observe(event Event) { u.deletions.observe(event) }

func (u *usersService) isStopping() bool { return u.stopping.Err() != nil }
