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
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var trouble <-chan error
	if j.local != nil {
		trouble = j.local.server.Trouble
	}
	now := time.Now()
	m := maintenance{Journal: j, ticked: now, checkpoints: checkpointer{at: now}, advanced: now, floors: floors{}}
	defer m.end()
	for {
		select {
		case <-j.Ctx.Done():
			return
		case cause := <-trouble:
			j.repairStore(cause)
		case now := <-ticker.C:
			m.tick(now)
		}
	}
}

// A maintenance is the state of maintain.
type maintenance struct {
	*Journal
	ticked      time.Time // time of the last tick
	probed      progress  // position at the last probe with a response
	checkpoints checkpointer
	advanced    time.Time // when floors were last advanced
	floors      floors
}

// tick runs the periodic work.
func (m *maintenance) tick(now time.Time) {
	m.checkClock(now)
	m.probeIfChanged()
	m.trimIfShort()
	m.reserveBallast()
	m.saveLedger()
	m.updateFloors(now)
}

// end stores the ledger for the next start.
func (m *maintenance) end() {
	ctx, cancel := context.WithTimeout(context.Background(), store.RequestTimeout)
	defer cancel()
	if err := m.storeLedger(ctx, true); err != nil {
		m.Log.Debug("storing the ledger failed; the next start will take longer", "error", err)
	}
}

// checkClock triggers a trim if the clock has stepped back, because rescheduleAhead then makes retries
// due now.
func (m *maintenance) checkClock(now time.Time) {
	if now.Round(0).Sub(m.ticked.Round(0))-now.Sub(m.ticked) < -record.MaxSkew {
		store.Poke(m.trimmer.soon)
	}
	m.ticked = now
}

// probeIfChanged probes the store if data was stored since the last probe, or if other processes may
// have stored data. On a cluster, watchCluster probes.
func (m *maintenance) probeIfChanged() {
	if at := m.progress(); m.conns.cluster == nil && (m.Shared || at != m.probed) && m.probe() {
		m.probed = at
	}
}

// saveLedger stores the ledger if it has changed enough. It repairs the store after a failed write.
func (m *maintenance) saveLedger() {
	var file *fs.PathError
	switch err := m.storeLedger(m.Ctx, false); {
	case err == nil || m.Ctx.Err() != nil:
	case errors.As(err, &file):
		m.repairStore(err)
	default:
		m.Log.Warn("storing the ledger failed; will retry", "error", err)
	}
}

// storeLedger stores a snapshot, or a checkpoint if there is no data directory. now is true if the
// ledger must be stored even if little has changed.
func (m *maintenance) storeLedger(ctx context.Context, now bool) error {
	if m.local != nil {
		return m.snapshot(ctx, now)
	}
	return m.checkpoint(ctx, &m.checkpoints, now)
}

// updateFloors calls advanceFloors every floorsEvery.
func (m *maintenance) updateFloors(now time.Time) {
	if !m.Shared || now.Sub(m.advanced) < floorsEvery {
		return
	}
	m.advanced = now
	if err := m.advanceFloors(m.Ctx, m.floors); err != nil && m.Ctx.Err() == nil {
		m.Log.Debug("reading the positions of the consumers failed", "error", err)
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
