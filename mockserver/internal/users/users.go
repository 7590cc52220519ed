package users

import (
	"context"
	"log/slog"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Service takes audiences, computed traits and deletion requests, and makes
// the calls that tell destinations of them. Its methods may be called from many
// goroutines at once.
type Service struct {
	config    Config
	stopping  context.Context // ends with drain
	Drain     context.CancelFunc
	syncs     *syncs
	deletions *deletions
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
	Replay(ctx context.Context, destination string, calls []tracking.Call, from tracking.State) error
}

// knownCalls are the calls that are recognised when they are stored again.
type knownCalls interface {
	// Without returns a batch without the calls that are known.
	Without(b event.Batch) event.Batch
	// Add makes a call known.
	Add(source, messageID string)
}

// New returns a service that does nothing before start.
func New(config Config) *Service {
	if config.BatchCalls == 0 {
		config.BatchCalls = defaultBatchCalls
	}
	u := &Service{config: config}
	u.stopping, u.Drain = context.WithCancel(context.Background())
	u.syncs, u.deletions = newSyncs(u), newDeletions(u)
	return u
}

// Start takes up what earlier processes left.
func (u *Service) Start() {
	u.syncs.start()
	u.deletions.start()
}

// Stop ends the work, without waiting for what is under way at others. More calls
// may be delivered until then; EndOutcomes follows once none are.
func (u *Service) Stop() {
	u.Drain()
	u.syncs.work.stop()
	u.deletions.work.stop()
}

// EndOutcomes stores the outcomes of notifications that have come since. It is called
// once, after stop and when no more deliveries end.
func (u *Service) EndOutcomes() { u.deletions.endOutcomes() }

// Observe implements Observer: it takes the outcomes of notifications.
func (u *Service) Observe(event event.Event) { u.deletions.observe(event) }

func (u *Service) isStopping() bool { return u.stopping.Err() != nil }
