package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// reserve is how much more than MaxBytes the server takes. Append refuses
	// calls before that; replays, and destinations that are attached or detached,
	// still find room.
	reserve = 64 << 20
	// duplicates is how long a cluster knows a message that is published again.
	duplicates = 2 * time.Minute
)

// streams returns what there must be.
func (j *Journal) streams() []jetstream.StreamConfig {
	n, o := j.names, j.options
	calls := jetstream.StreamConfig{
		Name: n.stream(streamCalls), Description: "accepted calls, in their order",
		Subjects: []string{n.subject("c.*"), n.subject("a.*"), n.subject("b.*"), n.subject("z")},
		MaxBytes: o.MaxBytes + reserve, Discard: jetstream.DiscardNew,
	}
	outcomes := jetstream.StreamConfig{
		Name: n.stream(streamOutcomes), Description: "what became of calls",
		Subjects: []string{n.subject("o")},
	}
	retry := jetstream.StreamConfig{
		Name: n.stream(streamRetry), Description: "what is to be tried again, and when",
		Subjects:  []string{n.subject("at.*.*"), n.subject("due.*.*")},
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true,
	}
	failed := jetstream.StreamConfig{
		Name: n.stream(streamFailed), Description: "calls that were given up",
		Subjects: []string{n.subject("f.*.*"), n.subject("m.*.*")}, MaxMsgsPerSubject: 1,
		MaxAge: o.KeepFailed, MaxBytes: o.FailedBytes, Discard: jetstream.DiscardOld,
	}
	attempts := jetstream.StreamConfig{
		Name: n.stream(streamAttempts), Description: "requests to webhooks",
		Subjects: []string{n.subject("t")},
		MaxAge:   o.KeepAttempts, MaxBytes: o.AttemptsBytes, Discard: jetstream.DiscardOld,
	}
	state := jetstream.StreamConfig{
		Name: n.stream(streamState), Description: "what the journal keeps about itself",
		Subjects: []string{n.subject("s.>")}, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
	}
	all := []jetstream.StreamConfig{
		calls, outcomes, retry, failed, attempts, state,
		j.bucketStream(bucketSettings, "settings that were made at run time"),
		j.bucketStream(bucketState, "audiences, computed traits and deletion requests"),
	}
	for i := range all {
		// On a cluster only the leader is asked: another server may not have all yet.
		all[i].AllowDirect, all[i].Replicas = o.NATS == nil, 1
		if o.NATS != nil {
			all[i].Replicas, all[i].Duplicates = o.NATS.Replicas, duplicates
			continue
		}
		// Within the process no answer is lost on its way, so nothing is published
		// twice; to remember for longer would have to be read back at every start.
		all[i].Duplicates = 100 * time.Millisecond
		if kind := all[i].Name; kind == n.stream(streamRetry) || kind == n.stream(streamAttempts) {
			// What RETRY holds can be made again from OUTCOMES, and is, at the start.
			all[i].PersistMode = jetstream.AsyncPersistMode
		}
	}
	return all
}

// ensure makes the streams that are missing. On an embedded server they may be
// missing only while the directory is new.
func (j *Journal) ensure(ctx context.Context) error {
	if j.options.NATS != nil {
		for _, config := range j.streams() {
			err := j.patiently(ctx, func(ctx context.Context) error { return j.ensureStream(ctx, config, true) })
			if err != nil {
				return err
			}
		}
		return nil
	}
	m, err := j.readMarker()
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
	if err := syncTree(j.options.Dir); err != nil {
		return fmt.Errorf("journal: bringing new streams to the disk: %w", err)
	}
	return marker{Format: markerFormat, Ready: true, Streams: created}.write(j.options.Dir)
}

// ensureStream brings one stream to its configuration.
func (j *Journal) ensureStream(ctx context.Context, config jetstream.StreamConfig, create bool) error {
	stream, err := j.js.Stream(ctx, config.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && create:
		_, err = j.js.CreateStream(ctx, config)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return damaged("the stream %s cannot be found in %s, though it was created there; its meta.inf may be damaged. Nothing was removed. "+
			"Restore the directory from a backup, or move it away to begin empty: the calls in it that were not delivered are then lost", config.Name, j.options.Dir)
	case err == nil && !sameLimits(stream.CachedInfo().Config, config):
		have := stream.CachedInfo().Config
		have.MaxBytes, have.MaxAge = config.MaxBytes, config.MaxAge
		_, err = j.js.UpdateStream(ctx, have)
	}
	if err == nil {
		err = j.bind(ctx, config.Name)
	}
	if err != nil {
		return fmt.Errorf("journal: the stream %s: %w", config.Name, err)
	}
	return nil
}

// bind remembers the streams that are read by number or subject.
func (j *Journal) bind(ctx context.Context, name string) error {
	to := map[string]*jetstream.Stream{
		j.names.stream(streamCalls): &j.calls, j.names.stream(streamOutcomes): &j.outcomes, j.names.stream(streamRetry): &j.retry,
		j.names.stream(streamFailed): &j.failed, j.names.stream(streamState): &j.state,
	}[name]
	if to == nil || *to != nil {
		return nil
	}
	var err error
	*to, err = j.js.Stream(ctx, name)
	return err
}

func sameLimits(have, want jetstream.StreamConfig) bool {
	bytes := want.MaxBytes
	if bytes == 0 {
		bytes = -1
	}
	return have.MaxBytes == bytes && have.MaxAge == want.MaxAge
}
