package jetstream

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// maintain runs periodic work and repairs the store after failed writes.
func (j *Journal) maintain() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var trouble <-chan error
	if j.local != nil {
		trouble = j.local.server.Trouble
	}
	seen := floors{}
	checkpoint := func(ctx context.Context, c *checkpointer, now bool) error {
		if j.local != nil {
			return j.snapshot(ctx, now)
		}
		return j.checkpoint(ctx, c, now)
	}
	var looked progress
	last, raised, checkpoints := time.Now(), time.Now(), checkpointer{at: time.Now()}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), store.RequestPatience)
		defer cancel()
		if err := checkpoint(ctx, &checkpoints, true); err != nil {
			j.Log.Debug("the account is not stored; the next start reads more", "error", err)
		}
	}()
	for {
		select {
		case <-j.Ctx.Done():
			return
		case cause := <-trouble:
			j.mend(cause)
		case now := <-tick.C:
			if now.Round(0).Sub(last.Round(0))-now.Sub(last) < -record.MaxSkew {
				store.Poke(j.trimmer.soon) // the clock stepped back, see hastenRetries
			}
			last = now
			if at := j.progress(); j.conns.cluster == nil && (j.Shared || at != looked) && j.look() {
				looked = at
			}
			j.trimIfShort()
			j.holdBallast()
			var file *fs.PathError
			switch err := checkpoint(j.Ctx, &checkpoints, false); {
			case err == nil || j.Ctx.Err() != nil:
			case errors.As(err, &file):
				j.mend(err)
			default:
				j.Log.Warn("the account is not stored; it is tried again", "error", err)
			}
			if j.Shared && now.Sub(raised) >= floorsEvery {
				raised = now
				if err := j.raiseFloors(j.Ctx, seen); err != nil && j.Ctx.Err() == nil {
					j.Log.Debug("how far the consumers are is not known", "error", err)
				}
			}
		}
	}
}

// look measures the size of CALLS and reports whether the store responded.
func (j *Journal) look() bool {
	ctx, cancel := context.WithTimeout(j.Ctx, store.AskPatience)
	defer cancel()
	err := j.measure(ctx)
	if err != nil && j.Ctx.Err() == nil {
		j.Log.Debug("the streams cannot be measured", "error", err)
	}
	return err == nil
}

// keepLinked checks every second whether the cluster responds. A partitioned server keeps
// its connections but does not respond, so keepLinked then switches to another server.
func (j *Journal) keepLinked() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-j.Ctx.Done():
			return
		case <-tick.C:
		}
		if j.look() {
			answered = time.Now()
		}
		if time.Since(answered) < linkSilence {
			continue
		}
		answered = time.Now()
		j.Log.Warn("the cluster does not answer; another of its servers is tried", "server", j.conns.out.ConnectedUrlRedacted())
		for _, nc := range []*nats.Conn{j.conns.in, j.conns.out} {
			_ = nc.ForceReconnect() // fails only on a closed connection
		}
	}
}

// linkSilence is the time without a response after which another server is tried. An
// election may take longer; reconnecting does no harm then.
const linkSilence = 5 * time.Second

// keepAlive renews the leases of entries in progress. It has its own goroutine because
// maintain may wait for a cluster's responses.
func (j *Journal) keepAlive() {
	for pause.For(j.Ctx, queue.Renewal) == nil {
		j.queues.Renew(time.Now())
	}
}

// mend restarts the embedded server when the disk is writable again: after a failed write
// the server no longer responds.
func (j *Journal) mend(cause error) {
	if err := j.local.lock.Held(); err != nil {
		cause = err
	}
	j.Status.Down(cause)
	j.Log.Error("the store cannot be written to; calls are refused until it can", "directory", j.options.Dir, "error", cause)
	if datadir.IsDiskFull(cause) {
		j.giveWay()
	}
	last, told := "", false
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if pause.For(j.Ctx, wait) != nil {
			return
		}
		err := j.restart()
		if err == nil {
			break
		}
		if datadir.IsDiskFull(err) {
			j.giveWay()
			if !told && wait >= time.Second { // released space may not be available at once
				told = true
				j.tellLack(err)
			}
		}
		level := slog.LevelDebug
		if errors.Is(err, record.ErrDamaged) && err.Error() != last {
			level = slog.LevelError
		}
		last = err.Error()
		j.Log.Log(j.Ctx, level, "the store still cannot be written to", "error", err)
	}
	j.Link.Swap(store.NewLink()).End() // before the ledger continues: received messages may be lost, see queue.accounted
	j.Status.Up()
	j.Log.Info("the store can be written to again", "directory", j.options.Dir)
	j.reconnected()
	// RETRY is not synced with each message and may be incomplete.
	j.Work.Go(func() {
		if err := j.restoreRetries(j.Ctx, j.ledger.Destinations()...); err != nil && j.Ctx.Err() == nil {
			j.Log.Warn("retries that were not stored could not be made again; those that are overdue are looked after", "error", err)
		}
	})
}

// restart rewrites unsynced blocks and starts the embedded server again.
func (j *Journal) restart() error {
	if err := j.local.lock.Held(); err != nil {
		return err
	}
	if err := datadir.Writable(j.options.Dir); err != nil {
		return err
	}
	_ = j.local.server.Stop() // unwritten data is treated as lost
	if err := j.local.files.RewriteUnproved(); err != nil {
		return err
	}
	if err := j.startServer(); err != nil {
		return err
	}
	return j.resume()
}

// resume waits for the connections and checks that the streams contain all acknowledged
// messages.
func (j *Journal) resume() error {
	ctx, cancel := context.WithTimeout(j.Ctx, store.RequestPatience)
	defer cancel()
	for _, nc := range []*nats.Conn{j.conns.in, j.conns.out} {
		for nc.Status() != nats.CONNECTED {
			if err := pause.For(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	if err := j.ensure(ctx); err != nil {
		return err
	}
	calls, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return err
	}
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return err
	}
	readCalls, readOutcomes := j.ledger.Position()
	readCalls = max(readCalls, j.seen.acked.Load())
	if calls.LastSeq < readCalls || outcomes.LastSeq < readOutcomes {
		return record.Damaged("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored. %s",
			calls.LastSeq, outcomes.LastSeq, readCalls, readOutcomes, j.options.howToGoOn())
	}
	return nil
}

const floorsEvery = 10 * time.Second

// A seenFloor is a consumer's acknowledged position and the last outcome at that time.
type seenFloor struct{ attached, floor, outcomes uint64 }

// floors maps destinations of this process to their last seen positions.
type floors map[string]seenFloor

// raiseFloors advances the ledger's floors to the acknowledged positions of the shared
// consumers: a single process does not know which entries the others work on. An
// acknowledged message has an outcome, but the ledger must have read it first, and a new
// leader of OUTCOMES may not report all messages at once. So each round applies the
// positions seen in the previous round.
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
