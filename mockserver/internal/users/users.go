package users

import (
	"context"
	"log/slog"
	"sync"
	"time"

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
	stopping  context.Context    // ends when the service is drained
	drain     context.CancelFunc // ends stopping
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

func (u *Service) isStopping() bool { return u.stopping.Err() != nil }

// syncs takes lists and makes calls of them, for all computations.
type syncs struct {
	service *Service
	state   state.Store
	work    *workers
	sorts   chan struct{} // one token for each list being read

	changed notifier // tells when a record was changed here

	mu   sync.Mutex       // guards what follows
	sent map[string]int64 // calls of running syncs, by ID, of which the record may not know
}

// An outcomeID names a notification and a destination. There is one outcome for
// each that waits to be stored, the latest.
type outcomeID struct{ call, destination string }

// deletions takes requests, makes their calls and follows these. It is an
// event.Observer, so that it learns of the outcomes.
type deletions struct {
	service *Service
	state   state.Store
	work    *workers
	changed notifier // tells when something was stored here

	following sync.WaitGroup
	wake      chan struct{} // holds one token while there are outcomes to store; never closed
	done      chan struct{} // closed by stop

	mu       sync.Mutex // guards what follows
	outcomes map[outcomeID]tracking.Ended
	settled  map[string]time.Time // when requests were completed, by key
	suspects map[string]time.Time // since when outcomes of requests look lost, by key
}
