package users

import (
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
