package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
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
	info, err := j.outcomes.Info(ctx)
	if err != nil {
		return err
	}
	queues := j.queues.Attached()
	maps.DeleteFunc(seen, func(name string, before seenFloor) bool { return queues[name] != before.attached })
	for name, attached := range queues {
		before := seen[name]
		if err := j.account.ReachedBoth(ctx, 0, max(before.outcomes, info.State.LastSeq)); err != nil {
			return err
		}
		j.account.Raise(name, attached, before.floor)
		floor, err := j.ackFloor(ctx, name)
		if err != nil {
			return err
		}
		seen[name] = seenFloor{attached, floor, info.State.LastSeq}
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
func (j *Journal) SettleFor(ctx context.Context, destination string, messages map[uint64][]string) error {
	since := time.Now().Add(-3*queue.AckWait - unsettled)
	err := j.settleOutcomes(ctx, since, func(o *record.Outcome) bool {
		_, came := messages[o.Ref.Seq]
		return o.Destination == destination && came
	})
	if err != nil {
		return err
	}
	var retries []waitingRetry
	j.account.With(destination, func(b *ledger.Account) {
		for seq := range messages {
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
		_, err := j.retry.GetLastMsgForSubject(ctx, j.Names.Subject(kind, record.Token(destination), strconv.FormatUint(ref.Number(), 10)))
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
	l := &replayLock{store.NewLock(j.Store, j.state, "lock", record.Token(destination)), j}
	j.replaying.Lock()
	if j.options.NATS == nil {
		return l, nil
	}
	for {
		err := l.Take(ctx)
		if err == nil {
			return l, nil
		}
		if store.IsWrongSequence(err) {
			if err = store.Sleep(ctx, 100*time.Millisecond); err == nil {
				continue
			}
			err = fmt.Errorf("journal: another process replays for %q: %w", destination, err)
		}
		j.replaying.Unlock()
		return nil, err
	}
}

func (l *replayLock) unlock(ctx context.Context) {
	l.Remove(ctx)
	l.journal.replaying.Unlock()
}
