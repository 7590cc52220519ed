package jetstream

import (
	"context"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
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

// Health implements journal.HealthChecker.
func (j *Journal) Health(ctx context.Context) (journal.Health, error) {
	return journal.Health{Bytes: j.usage.bytes(), LimitBytes: j.options.MaxBytes, Servers: j.servers.All(), Scrub: j.scrubber.health()}, j.Ready(ctx)
}
