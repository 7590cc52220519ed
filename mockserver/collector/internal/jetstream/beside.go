package jetstream

import (
	"context"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/attempts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/kv"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

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
	if err := j.recent.Add(a); err != nil {
		j.Log.Debug("what was stored is noted once only", "error", err)
	}
}

// Attempts returns the journal's log of attempts.
func (j *Journal) Attempts() *attempts.Log { return j.attempts }
