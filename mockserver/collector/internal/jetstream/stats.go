package jetstream

import (
	"context"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/attempts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/kv"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

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
		stream, err := j.JS.Stream(ctx, j.Names.Stream(kind))
		if err != nil {
			return s, fmt.Errorf("journal: measuring %s: %w", kind, err)
		}
		state := stream.CachedInfo().State
		*stored = Stored{state.Msgs, state.Bytes}
	}
	return s, nil
}

// Health implements mockserver.HealthChecker.
func (j *Journal) Health(ctx context.Context) (mockserver.JournalHealth, error) {
	return mockserver.JournalHealth{Bytes: j.usage.bytes(), LimitBytes: j.options.MaxBytes, Servers: j.servers.All(), Scrub: j.scrubber.Health()}, j.Ready(ctx)
}

// Settings returns a store for the settings that are made at run time, shared by
// all who share the journal. It is usable until the journal is closed.
func (j *Journal) Settings(ctx context.Context) (mockserver.SettingsStore, error) {
	return j.buckets().Settings(ctx)
}

// State returns a store for deletion requests, audiences and computed traits,
// shared by all who share the journal. It is usable until the journal is closed.
func (j *Journal) State(ctx context.Context) (mockserver.StateStore, error) {
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
	if err := j.recent.Add(a); err != nil {
		j.Log.Debug("what was stored is noted once only", "error", err)
	}
}

// Attempts returns the journal's log of attempts.
func (j *Journal) Attempts() *attempts.Log { return j.attempts }
