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
		ctx, cancel := context.WithTimeout(context.Background(), store.RequestTimeout)
		defer cancel()
		if err := checkpoint(ctx, &checkpoints, true); err != nil {
			j.Log.Debug("storing the ledger failed; the next start will take longer", "error", err)
		}
	}()
	for {
		select {
		case <-j.Ctx.Done():
			return
		case cause := <-trouble:
			j.repairStore(cause)
		case now := <-tick.C:
			if now.Round(0).Sub(last.Round(0))-now.Sub(last) < -record.MaxSkew {
				store.Poke(j.trimmer.soon) // the clock stepped back; rescheduleAhead makes retries due now
			}
			last = now
			if at := j.progress(); j.conns.cluster == nil && (j.Shared || at != looked) && j.probe() {
				looked = at
			}
			j.trimIfShort()
			j.reserveBallast()
			var file *fs.PathError
			switch err := checkpoint(j.Ctx, &checkpoints, false); {
			case err == nil || j.Ctx.Err() != nil:
			case errors.As(err, &file):
				j.repairStore(err)
			default:
				j.Log.Warn("storing the ledger failed; will retry", "error", err)
			}
			if j.Shared && now.Sub(raised) >= floorsEvery {
				raised = now
				if err := j.advanceFloors(j.Ctx, seen); err != nil && j.Ctx.Err() == nil {
					j.Log.Debug("reading the positions of the consumers failed", "error", err)
				}
			}
		}
	}
}

// probe measures the size of CALLS and reports whether the store responded.
func (j *Journal) probe() bool {
	ctx, cancel := context.WithTimeout(j.Ctx, store.QueryTimeout)
	defer cancel()
	err := j.measure(ctx)
	if err != nil && j.Ctx.Err() == nil {
		j.Log.Debug("measuring the streams failed", "error", err)
	}
	return err == nil
}

// watchCluster checks every second whether the cluster responds. A partitioned server keeps
// its connections but does not respond, so watchCluster then switches to another server.
func (j *Journal) watchCluster() {
	responded := time.Now()
	for pause.For(j.Ctx, time.Second) == nil {
		if j.probe() {
			responded = time.Now()
		}
		if time.Since(responded) < clusterSilence {
			continue
		}
		responded = time.Now()
		j.Log.Warn("the cluster does not respond; connecting to another server", "server", j.conns.out.ConnectedUrlRedacted())
		for _, nc := range []*nats.Conn{j.conns.in, j.conns.out} {
			_ = nc.ForceReconnect() // fails only if the connection is closed
		}
	}
}

// clusterSilence is the longest time without a response before watchCluster tries another server.
// An election may take longer, but reconnecting during an election does no harm.
const clusterSilence = 5 * time.Second

// renewLeases renews the leases of entries in progress. It has its own goroutine because maintain
// may have to wait for responses of a cluster.
func (j *Journal) renewLeases() {
	for pause.For(j.Ctx, queue.Renewal) == nil {
		j.queues.Renew(time.Now())
	}
}

// repairStore restarts the embedded server as soon as the disk is writable. After a failed write,
// the server does not respond until it is restarted.
func (j *Journal) repairStore(cause error) {
	if err := j.local.lock.Check(); err != nil {
		cause = err
	}
	j.Status.Down(cause)
	j.Log.Error("the store is not writable; new calls are refused until it is", "directory", j.options.Dir, "error", cause)
	if datadir.IsDiskFull(cause) {
		j.releaseBallast()
	}
	last, logged := "", false
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if pause.For(j.Ctx, wait) != nil {
			return
		}
		err := j.restart()
		if err == nil {
			break
		}
		if datadir.IsDiskFull(err) {
			j.releaseBallast()
			if !logged && wait >= time.Second { // released space may only be available after some time
				logged = true
				j.logNoSpace(err)
			}
		}
		level := slog.LevelDebug
		if errors.Is(err, record.ErrDamaged) && err.Error() != last {
			level = slog.LevelError
		}
		last = err.Error()
		j.Log.Log(j.Ctx, level, "the store is still not writable", "error", err)
	}
	j.Link.Swap(store.NewLink()).End() // before the ledger continues, because received messages may be lost; see Queue.awaitLedger
	j.Status.Up()
	j.Log.Info("the store is writable again", "directory", j.options.Dir)
	j.reconnected()
	// RETRY is not synced with each message and may be incomplete.
	j.Work.Go(func() {
		if err := j.restoreRetries(j.Ctx, j.ledger.Destinations()...); err != nil && j.Ctx.Err() == nil {
			j.Log.Warn("restoring missing retries failed; late ones are restored later", "error", err)
		}
	})
}

// restart rewrites unsynced blocks and starts the embedded server again.
func (j *Journal) restart() error {
	if err := j.local.lock.Check(); err != nil {
		return err
	}
	if err := datadir.Writable(j.options.Dir); err != nil {
		return err
	}
	_ = j.local.server.Stop() // unwritten data counts as lost
	if err := j.local.files.RewriteUnsynced(); err != nil {
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
	ctx, cancel := context.WithTimeout(j.Ctx, store.RequestTimeout)
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
	calls, outcomes, err := j.ends(ctx)
	if err != nil {
		return err
	}
	readCalls, readOutcomes := j.ledger.Position()
	readCalls = max(readCalls, j.seen.acked.Load())
	if calls < readCalls || outcomes < readOutcomes {
		return record.Damaged("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored. %s",
			calls, outcomes, readCalls, readOutcomes, j.options.repairHint())
	}
	return nil
}

const floorsEvery = 10 * time.Second

// A seenFloor is a consumer's acknowledged position, and the last outcome when it was read.
type seenFloor struct{ attached, floor, outcomes uint64 }

// floors maps the destinations of this process to the positions that were last read.
type floors map[string]seenFloor

// advanceFloors raises the ledger's floors to the acknowledged positions of the shared consumers.
// The ledger cannot do this itself, because it does not know the entries that other processes work
// on. Acknowledged messages have outcomes, but the ledger must read these outcomes first, and a new
// leader of OUTCOMES may report its last messages late. Each round therefore applies the positions
// that the previous round read. It sends no requests for destinations without finished attempts above
// the floor, so idle destinations cost no requests.
func (j *Journal) advanceFloors(ctx context.Context, seen floors) error {
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return err
	}
	queues := j.queues.Attached()
	maps.DeleteFunc(seen, func(name string, before seenFloor) bool { return queues[name] != before.attached })
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		attached, before := queues[name], seen[name]
		if !j.ledger.CanAdvance(name) {
			delete(seen, name)
			continue
		}
		if err := j.ledger.Reached(ctx, 0, max(before.outcomes, outcomes.LastSeq)); err != nil {
			return err
		}
		j.ledger.Advance(name, attached, before.floor)
		floor, err := j.ackFloor(ctx, name)
		if err != nil {
			return err
		}
		seen[name] = seenFloor{attached, floor, outcomes.LastSeq}
	}
	return nil
}
