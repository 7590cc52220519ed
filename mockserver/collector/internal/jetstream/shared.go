package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
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
	// lockTTL is how long a process that died may keep others from a replay.
	lockTTL = 30 * time.Second
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
		stored, err := j.isStored(ctx, destination, w.ref)
		if err == nil && !stored {
			err = j.RestoreRetry(ctx, w.destination, w.ref, w.retry, new(store.Outcomes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isStored reports whether RETRY has a retry.
func (j *Journal) isStored(ctx context.Context, destination string, ref record.Ref) (bool, error) {
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

// A replayLock lets one replay for a destination run at a time: two could replay
// the same failed calls. Another one lets one collector scrub. On a cluster it is a message that others see, and that goes
// by itself if it is not renewed.
type replayLock struct {
	journal *Journal
	subject string
	seq     uint64    // the message
	at      time.Time // when it was stored
}

func (j *Journal) lockReplay(ctx context.Context, destination string) (*replayLock, error) {
	l := &replayLock{journal: j, subject: j.Names.Subject("s", "lock", record.Token(destination))}
	j.replaying.Lock()
	if j.options.NATS == nil {
		return l, nil
	}
	for {
		err := l.store(ctx)
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

// store stores the lock's message in place of the one before.
func (l *replayLock) store(ctx context.Context) error {
	m := nats.NewMsg(l.subject)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(l.seq, 10))
	m.Header.Set("Nats-TTL", lockTTL.String())
	l.journal.Identify(m)
	seq, err := l.journal.Publish(ctx, l.journal.NC, m)
	if err == nil {
		l.seq, l.at = seq, time.Now()
	}
	return err
}

// renew keeps the lock. It is an error if another process may have it.
func (l *replayLock) renew(ctx context.Context) error {
	if l.journal.options.NATS == nil || time.Since(l.at) < lockTTL/3 {
		return nil
	}
	if err := l.store(ctx); err != nil {
		return fmt.Errorf("the lock of the replay was lost: %w", err)
	}
	return nil
}

func (l *replayLock) unlock(ctx context.Context) {
	l.remove(ctx)
	l.journal.replaying.Unlock()
}

// remove lets others have the lock.
func (l *replayLock) remove(ctx context.Context) {
	if l.seq != 0 {
		_ = l.journal.state.DeleteMsg(context.WithoutCancel(ctx), l.seq) // else it goes by itself
	}
}
