package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

const (
	// reserve is additional space beyond MaxBytes. Replays and control messages can use this
	// space when Append already rejects calls.
	reserve = 64 << 20
	// duplicates is the deduplication window of a cluster.
	duplicates = 2 * time.Minute
)

// streams returns the configuration of all streams.
func (j *Journal) streams() []jetstream.StreamConfig {
	n, o := j.Names, j.options
	calls := jetstream.StreamConfig{
		Name: n.Stream(record.StreamCalls), Description: "accepted calls",
		Subjects: []string{n.Subject("c.*"), n.Subject("a.*"), n.Subject("b.*"), n.Subject("z")},
		MaxBytes: o.MaxBytes + reserve, Discard: jetstream.DiscardNew,
	}
	outcomes := jetstream.StreamConfig{
		Name: n.Stream(record.StreamOutcomes), Description: "results of leases",
		Subjects: []string{n.Subject("o")},
	}
	if o.NATS != nil {
		outcomes.Subjects = append(outcomes.Subjects, n.Subject("o", "*"))
	}
	retry := jetstream.StreamConfig{
		Name: n.Stream(record.StreamRetry), Description: "scheduled retries",
		Subjects:  []string{n.Subject("at.*.*"), n.Subject("due.*.*")},
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true,
	}
	failed := jetstream.StreamConfig{
		Name: n.Stream(record.StreamFailed), Description: "failed calls",
		Subjects: []string{n.Subject("f.*.*"), n.Subject("m.*.*")}, MaxMsgsPerSubject: 1,
		MaxAge: o.KeepFailed, MaxBytes: o.FailedBytes, Discard: jetstream.DiscardOld,
	}
	attempts := jetstream.StreamConfig{
		Name: n.Stream(record.StreamAttempts), Description: "requests to webhooks",
		Subjects: []string{n.Subject("t")},
		MaxAge:   o.KeepAttempts, MaxBytes: o.AttemptsBytes, Discard: jetstream.DiscardOld,
	}
	state := jetstream.StreamConfig{
		Name: n.Stream(record.StreamState), Description: "internal state of the journal",
		Subjects: []string{n.Subject("s.>")}, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
	}
	all := []jetstream.StreamConfig{
		calls, outcomes, retry, failed, attempts, state,
		store.BucketStream(n, record.BucketSettings, "settings made at run time"),
		store.BucketStream(n, record.BucketState, "audiences, computed traits and deletion requests"),
	}
	for i := range all {
		// On a cluster, only the leader may respond, because other servers can lag behind.
		all[i].AllowDirect, all[i].Replicas = o.NATS == nil, 1
		if o.NATS != nil {
			all[i].Replicas, all[i].Duplicates = o.NATS.Replicas, duplicates
			continue
		}
		// An embedded server loses no responses, so no message is published twice and a short
		// window is enough. The server reads the window at every start.
		all[i].Duplicates = 100 * time.Millisecond
		if kind := all[i].Name; kind == n.Stream(record.StreamRetry) || kind == n.Stream(record.StreamAttempts) {
			// RETRY may lose messages, because each start restores them from OUTCOMES.
			all[i].PersistMode = jetstream.AsyncPersistMode
		}
	}
	return all
}

// ensure creates missing streams. In a data directory, streams may be missing only if the
// directory is new.
func (j *Journal) ensure(ctx context.Context) error {
	if j.local == nil {
		return j.ensureShared(ctx)
	}
	m, err := j.local.files.ReadMarker()
	if err != nil {
		return err
	}
	configs := j.streams()
	created := slices.Clone(m.Streams)
	for _, config := range configs {
		if err := j.ensureStream(ctx, config, !m.Ready || j.options.AcceptLoss || !slices.Contains(m.Streams, config.Name)); err != nil {
			return err
		}
		if !slices.Contains(created, config.Name) {
			created = append(created, config.Name)
		}
	}
	if m.Ready && !j.options.AcceptLoss && len(created) == len(m.Streams) {
		return nil
	}
	if err := datadir.SyncTree(j.options.Dir); err != nil {
		return fmt.Errorf("journal: syncing new streams: %w", err)
	}
	return datadir.Marker{Format: datadir.MarkerFormat, Ready: true, Streams: created}.Write(j.options.Dir)
}

// ensureShared creates missing streams on a cluster. CALLS and OUTCOMES may only be missing
// before the first call, unless the operator accepts the loss.
func (j *Journal) ensureShared(ctx context.Context) error {
	var next map[string]uint64
	var lost error
	err := awaitLeader(ctx, func() (incomplete bool, err error) {
		next, lost = j.findLostStreams(ctx)
		return errors.Is(lost, record.ErrDamaged) && !j.options.AcceptLoss, nil
	})
	if err != nil {
		return err
	}
	if lost != nil {
		if !errors.Is(lost, record.ErrDamaged) || !j.options.AcceptLoss {
			return lost
		}
		for name := range next {
			j.previous.causes = append(j.previous.causes, "the cluster has lost the stream "+name)
		}
	}
	for _, config := range j.streams() {
		config.FirstSeq = next[config.Name]
		if err := j.Retry(ctx, func(ctx context.Context) error { return j.ensureStream(ctx, config, true) }); err != nil {
			return err
		}
	}
	return nil
}

// findLostStreams returns ErrDamaged if a cluster has lost CALLS or OUTCOMES. It also returns the
// first sequence numbers for the new streams.
func (j *Journal) findLostStreams(ctx context.Context) (next map[string]uint64, err error) {
	calls, hasCalls, err := j.lastOf(ctx, record.StreamCalls)
	if err != nil {
		return nil, err
	}
	outcomes, hasOutcomes, err := j.lastOf(ctx, record.StreamOutcomes)
	if err != nil || hasCalls && hasOutcomes {
		return nil, err
	}
	newest, err := j.newestLedger(ctx)
	if err != nil {
		return nil, err
	}
	if calls+outcomes+newest.Calls+newest.Outcomes == 0 {
		return nil, nil // nothing was stored yet
	}
	next = map[string]uint64{}
	var losses []string
	if !hasCalls {
		next[j.Names.Stream(record.StreamCalls)] = newest.Calls + 1
		pending := int64(0)
		ledgers, _ := newest.Ledgers()
		for _, l := range ledgers {
			pending += l.Pending
		}
		losses = append(losses, fmt.Sprintf("the stream %s is missing on the cluster: %d pending deliveries (according to the newest ledger) and all newer ones are lost",
			j.Names.Stream(record.StreamCalls), pending))
	}
	if !hasOutcomes {
		next[j.Names.Stream(record.StreamOutcomes)] = newest.Outcomes + 1
		losses = append(losses, fmt.Sprintf("the stream %s is missing on the cluster: calls finished after its message %d will be delivered again",
			j.Names.Stream(record.StreamOutcomes), newest.Outcomes))
	}
	return next, record.Damaged("%s. %s", strings.Join(losses, "; "), j.options.repairHint())
}

// lastOf returns the last sequence number of a stream, and whether the stream exists.
func (j *Journal) lastOf(ctx context.Context, kind string) (last uint64, found bool, err error) {
	err = j.Retry(ctx, func(ctx context.Context) error {
		state, err := j.Measure(ctx, kind)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		last, found = state.LastSeq, err == nil
		return err
	})
	return last, found, err
}

// newestLedger returns the newest ledger in STATE, or an empty ledger.
func (j *Journal) newestLedger(ctx context.Context) (*ledger.Ledger, error) {
	if last, _, err := j.lastOf(ctx, record.StreamState); err != nil || last == 0 {
		return ledger.New(), err
	}
	checkpoints, err := j.loadCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	base, _, err := j.loadBase(ctx)
	if err != nil {
		return nil, err
	}
	return newestOf(base, checkpoints), nil
}

// ensureStream creates a stream or updates its configuration.
func (j *Journal) ensureStream(ctx context.Context, config jetstream.StreamConfig, create bool) error {
	info, err := j.JS.Info(ctx, config.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && create:
		err = j.JS.Create(ctx, config)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return record.Damaged("the stream %s is missing in %s; its meta.inf may be damaged. Nothing was removed. "+
			"Restore the directory from a backup, or move it away to start empty: its undelivered calls are then lost", config.Name, j.options.Dir)
	case err == nil && !(sameLimits(info.Config, config) && hasSubjects(info.Config, config)):
		have := info.Config
		have.MaxBytes, have.MaxAge = config.MaxBytes, config.MaxAge
		have.Subjects = slices.Compact(slices.Sorted(slices.Values(slices.Concat(have.Subjects, config.Subjects))))
		err = j.JS.Update(ctx, have)
	}
	if err != nil {
		return fmt.Errorf("journal: the stream %s: %w", config.Name, err)
	}
	return nil
}

// hasSubjects reports whether a stream accepts all wanted subjects. It may also accept other
// subjects, for processes of a newer version.
func hasSubjects(have, want jetstream.StreamConfig) bool {
	return !slices.ContainsFunc(want.Subjects, func(s string) bool { return !slices.Contains(have.Subjects, s) })
}

func sameLimits(have, want jetstream.StreamConfig) bool {
	bytes := want.MaxBytes
	if bytes == 0 {
		bytes = -1
	}
	return have.MaxBytes == bytes && have.MaxAge == want.MaxAge
}
