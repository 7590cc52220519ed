package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
type seenFloor struct{ floor, outcomes uint64 }

// raiseFloors learns from the consumers up to where every message has had its
// first attempt: no process knows by itself what the others work at. What is
// acknowledged has an outcome, but the account must have read it before the floor
// may rise, and a new leader of OUTCOMES may not know at once all it has: so what
// counts is what was seen at the round before.
func (j *Journal) raiseFloors(ctx context.Context, seen map[*queue]seenFloor) error {
	info, err := j.outcomes.Info(ctx)
	if err != nil {
		return err
	}
	queues := j.allQueues()
	for q := range seen {
		if !slices.Contains(queues, q) {
			delete(seen, q)
		}
	}
	for _, q := range queues {
		before := seen[q]
		enough := max(before.outcomes, info.State.LastSeq)
		if err := j.account.await(ctx, func() bool { return j.account.outcomes >= enough }); err != nil {
			return err
		}
		j.account.with(q.name, func(b *book) {
			if b.attached == q.attached {
				b.rise(min(before.floor, j.account.calls))
			}
		})
		consumer, err := j.js.Consumer(ctx, j.names.stream(streamCalls), j.names.consumer(q.name))
		if err != nil {
			return err
		}
		seen[q] = seenFloor{consumer.CachedInfo().AckFloor.Stream, info.State.LastSeq}
	}
	return nil
}

// settleFor does what follows from outcomes about a message of CALLS, which a
// process may have stored just before it died: the message came again.
func (j *Journal) settleFor(ctx context.Context, destination string, seq uint64) error {
	since := time.Now().Add(-3*ackWait - unsettled)
	err := j.settleOutcomes(ctx, since, func(o *outcome) bool { return o.destination == destination && o.ref.seq == seq })
	if err != nil {
		return err
	}
	var retries []waiting
	j.account.with(destination, func(b *book) {
		for part := range maxParts {
			ref := callsRef{seq, part}
			if r, ok := b.retries[ref]; ok {
				retries = append(retries, waiting{destination, ref, r})
			}
		}
	})
	for _, w := range retries {
		stored, err := j.isStored(ctx, destination, w.ref)
		if err == nil && !stored {
			err = j.restoreRetry(ctx, w, new(readOutcomes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isStored tells whether RETRY has a retry.
func (j *Journal) isStored(ctx context.Context, destination string, ref callsRef) (bool, error) {
	for _, kind := range []string{"at", "due"} {
		_, err := j.retry.GetLastMsgForSubject(ctx, j.names.subject(kind, token(destination), strconv.FormatUint(ref.number(), 10)))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, err
		}
	}
	return false, nil
}

// lockReplay lets one replay for a destination run at a time: two could replay
// the same failed calls.
func (j *Journal) lockReplay(ctx context.Context, destination string) (unlock func(), err error) {
	j.replaying.Lock()
	if j.options.NATS == nil {
		return j.replaying.Unlock, nil
	}
	subject := j.names.subject("s", "lock", token(destination))
	for {
		m := nats.NewMsg(subject)
		m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
		m.Header.Set("Nats-TTL", lockTTL.String())
		_, err := j.publish(ctx, j.nc, m)
		var refused *serverError
		if err == nil {
			break
		}
		if !errors.As(err, &refused) || refused.ErrCode != codeWrongSequence {
			j.replaying.Unlock()
			return nil, err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			j.replaying.Unlock()
			return nil, fmt.Errorf("journal: another process replays for %q: %w", destination, err)
		}
	}
	return func() {
		_ = j.state.Purge(context.WithoutCancel(ctx), jetstream.WithPurgeSubject(subject)) // else it goes by itself
		j.replaying.Unlock()
	}, nil
}
