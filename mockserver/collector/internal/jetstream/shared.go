package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// What is here is for processes that share a cluster. One on a directory of its
// own needs none of it.

const (
	// floorsEvery is how often it is looked how far the consumers are.
	floorsEvery = 10 * time.Second
)

// A seenFloor is up to where a consumer was acknowledged, and how many outcomes
// there were then.
type seenFloor struct{ attached, floor, outcomes uint64 }

// floors are those of the queues of this process, by destination.
type floors map[string]seenFloor

// raiseFloors learns from the consumers up to where every message has had its
// first attempt: no process knows by itself what the others work at. What is
// acknowledged has an outcome, but the account must have read it before the floor
// may rise, and a new leader of OUTCOMES may not know at once all it has: so what
// counts is what was seen at the round before.
func (j *Journal) raiseFloors(ctx context.Context, seen floors) error {
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return err
	}
	queues := j.queues.Attached()
	maps.DeleteFunc(seen, func(name string, before seenFloor) bool { return queues[name] != before.attached })
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		attached, before := queues[name], seen[name]
		if err := j.ledger.ReachedBoth(ctx, 0, max(before.outcomes, outcomes.LastSeq)); err != nil {
			return err
		}
		j.ledger.Raise(name, attached, before.floor)
		floor, err := j.ackFloor(ctx, name)
		if err != nil {
			return err
		}
		seen[name] = seenFloor{attached, floor, outcomes.LastSeq}
	}
	return nil
}

// ackFloor returns up to where all messages of CALLS were acknowledged that a
// destination gets.
func (j *Journal) ackFloor(ctx context.Context, destination string) (uint64, error) {
	consumer, err := j.JS.Consumer(ctx, j.Names.Stream(record.StreamCalls), j.Names.Consumer(destination))
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().AckFloor.Stream, nil
}

// SettleFor does what follows from outcomes about messages of CALLS, which a process
// may have stored just before it died: the messages came again.
func (j *Journal) SettleFor(ctx context.Context, destination string, messages []uint64) error {
	since := time.Now().Add(-3*queue.AckWait - unsettled)
	came := map[uint64]bool{}
	for _, seq := range messages {
		came[seq] = true
	}
	err := j.settleOutcomes(ctx, since, func(o *record.Outcome) bool {
		return o.Destination == destination && came[o.Ref.Seq]
	})
	if err != nil {
		return err
	}
	var retries []waitingRetry
	j.ledger.With(destination, func(b *ledger.Account) {
		for _, seq := range messages {
			for part := range record.MaxParts {
				ref := record.Ref{Seq: seq, Part: part}
				if r, ok := b.Retries[ref]; ok {
					retries = append(retries, waitingRetry{destination, ref, r})
				}
			}
		}
	})
	for _, w := range retries {
		stored, err := j.IsStored(ctx, destination, w.ref)
		if err == nil && !stored {
			err = j.RestoreRetry(ctx, w.destination, w.ref, w.retry, new(store.Outcomes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// IsStored reports whether RETRY has a retry.
func (j *Journal) IsStored(ctx context.Context, destination string, ref record.Ref) (bool, error) {
	for _, kind := range []string{"at", "due"} {
		_, err := j.JS.Last(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject(kind, record.Token(destination), strconv.FormatUint(ref.Number(), 10)))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, err
		}
	}
	return false, nil
}

// A replayLock lets one replay for a destination run at a time: two could replay the same
// failed calls.
type replayLock struct {
	*store.Lock
	journal *Journal
}

func (j *Journal) lockReplay(ctx context.Context, destination string) (*replayLock, error) {
	l := &replayLock{store.NewLock(j.Store, "lock", record.Token(destination)), j}
	j.replays.running.Lock()
	if !j.Shared {
		return l, nil
	}
	for {
		err := l.Take(ctx)
		if err == nil {
			return l, nil
		}
		if store.IsWrongSequence(err) {
			if err = pause.For(ctx, 100*time.Millisecond); err == nil {
				continue
			}
			err = fmt.Errorf("journal: another process replays for %q: %w", destination, err)
		}
		j.replays.running.Unlock()
		return nil, err
	}
}

func (l *replayLock) unlock(ctx context.Context) {
	l.Remove(ctx)
	l.journal.replays.running.Unlock()
}

// On a cluster each process tells the others which destinations it has. One that has
// been taken out of the configuration of all of them would stay attached for ever
// otherwise: it would go on to get calls, which nobody works at and which are given up
// in the end. What no process has is either that, or of one that is being restarted;
// nothing but time tells them apart.

// claims are the destinations that this process has.
type claims struct {
	attaching turn // lets one Attach or Detach run at a time

	mu    sync.Mutex // guards names
	names map[string]bool
}

const (
	// claimEvery is how often a claim is renewed, and claimTTL how long it outlives its
	// process.
	claimEvery = 10 * time.Second
	claimTTL   = time.Minute
	// orphanAfter is how long no process may have had a destination before it is
	// detached: what was pending when it was taken out could not be delivered any more.
	orphanAfter = webhook.Window
	// orphanPause is how long after a look the next one must come, or what was seen
	// before does not count.
	orphanPause = 10 * time.Minute
)

// keepClaims renews the claim of this process, and looks what nobody claims.
func (j *Journal) keepClaims() {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	var seen orphans
	for {
		select {
		case <-j.Ctx.Done():
			return
		case now := <-tick.C:
			if err := j.claim(j.Ctx); err != nil && j.Ctx.Err() == nil {
				j.Log.Debug("the other collectors are not told which destinations this one has", "error", err)
			}
			if err := j.forgetOrphans(j.Ctx, &seen, now); err != nil && j.Ctx.Err() == nil {
				j.Log.Warn("whether a destination is no longer configured is not known; it is looked again", "error", err)
			}
		}
	}
}

// claim tells the others which destinations this process has.
func (j *Journal) claim(ctx context.Context) error {
	j.claims.mu.Lock()
	names := slices.Sorted(maps.Keys(j.claims.names))
	j.claims.mu.Unlock()
	m := nats.NewMsg(j.Names.Subject("s", "has", strconv.FormatUint(j.Writer, 16)))
	m.Data, _ = json.Marshal(names) // of strings: it cannot fail
	m.Header.Set("Nats-TTL", claimTTL.String())
	_, err := j.Publish(ctx, m)
	return err
}

// setClaim says whether this process has a destination.
func (j *Journal) setClaim(destination string, has bool) {
	j.claims.mu.Lock()
	defer j.claims.mu.Unlock()
	if has {
		j.claims.names[destination] = true
	} else {
		delete(j.claims.names, destination)
	}
}

// unclaimed returns the destinations that are attached and that no process has.
func (j *Journal) unclaimed(ctx context.Context) ([]string, error) {
	names := j.ledger.Destinations()
	j.claims.mu.Lock()
	names = slices.DeleteFunc(names, func(name string) bool { return j.claims.names[name] })
	j.claims.mu.Unlock()
	if len(names) == 0 {
		return nil, nil
	}
	t := j.Tail(record.StreamState, 1, func(m jetstream.Msg, _ uint64) error {
		var claimed []string
		if err := json.Unmarshal(m.Data(), &claimed); err != nil {
			return fmt.Errorf("journal: what another collector says it has cannot be read: %w", err)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(claimed, name) })
		return nil
	})
	t.Subjects = []string{j.Names.Subject("s", "has", "*")}
	err := t.Scan(ctx)
	return names, err
}

// orphans are the destinations that no process has.
type orphans struct {
	since  map[string]time.Time // they were seen to be
	looked time.Time            // the last time
}

// forgetOrphans detaches those that no process has had for orphanAfter.
func (j *Journal) forgetOrphans(ctx context.Context, seen *orphans, now time.Time) error {
	names, err := j.unclaimed(ctx)
	if err != nil {
		return err
	}
	if seen.since == nil || now.Sub(seen.looked) > orphanPause {
		seen.since = map[string]time.Time{}
	}
	seen.looked = now
	maps.DeleteFunc(seen.since, func(name string, _ time.Time) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		since, known := seen.since[name]
		switch {
		case !known:
			seen.since[name] = now
			j.Log.Warn("no collector has a destination that the cluster keeps calls for; it is forgotten if none has it for four hours", "destination", name)
		case now.Sub(since) >= orphanAfter:
			pending := int64(0)
			j.ledger.With(name, func(b *ledger.Account) { pending, _ = b.Pending() })
			if err := j.Detach(ctx, name); err != nil {
				return err
			}
			delete(seen.since, name)
			j.Log.Warn("a destination that no collector has had for four hours is forgotten, with its calls", "destination", name, "pending", pending)
		}
	}
	return nil
}
