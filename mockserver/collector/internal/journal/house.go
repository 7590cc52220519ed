package journal

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// keepHouse does what is to be done now and then.
func (j *Journal) keepHouse() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var trouble <-chan error
	if j.server != nil {
		trouble = j.server.trouble
	}
	floors := map[*queue]seenFloor{}
	checkpoint := func(ctx context.Context, c *checkpointer, now bool) error {
		if j.options.NATS == nil {
			return j.snapshot(ctx, now)
		}
		return j.checkpoint(ctx, c, now)
	}
	last, raised, checkpoints := time.Now(), time.Now(), checkpointer{at: time.Now()}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
		defer cancel()
		if err := checkpoint(ctx, &checkpoints, true); err != nil {
			j.log.Debug("the account is not stored; the next start reads more", "error", err)
		}
	}()
	for {
		select {
		case <-j.ctx.Done():
			return
		case cause := <-trouble:
			j.mend(cause)
		case now := <-tick.C:
			if now.Round(0).Sub(last.Round(0))-now.Sub(last) < -maxSkew {
				poke(j.trimSoon) // the clock has stepped back, see hastenRetries
			}
			last = now
			if j.options.NATS == nil {
				j.look()
			}
			j.holdBallast()
			var file *fs.PathError
			switch err := checkpoint(j.ctx, &checkpoints, false); {
			case err == nil || j.ctx.Err() != nil:
			case errors.As(err, &file):
				j.mend(err)
			default:
				j.log.Warn("the account is not stored; it is tried again", "error", err)
			}
			if j.options.NATS == nil {
				continue
			}
			if now.Sub(raised) >= floorsEvery {
				raised = now
				if err := j.raiseFloors(j.ctx, floors); err != nil && j.ctx.Err() == nil {
					j.log.Debug("how far the consumers are is not known", "error", err)
				}
			}
		}
	}
}

// look measures how full CALLS is, and reports whether the store has answered.
func (j *Journal) look() bool {
	ctx, cancel := context.WithTimeout(j.ctx, askPatience)
	defer cancel()
	err := j.measure(ctx)
	if err != nil && j.ctx.Err() == nil {
		j.log.Debug("the streams cannot be measured", "error", err)
	}
	j.trimIfShort()
	return err == nil
}

// keepLinked looks each second whether the cluster answers. A server that is cut off
// from the others does not, and yet keeps its connections: so another one is tried.
func (j *Journal) keepLinked() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-j.ctx.Done():
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
		j.log.Warn("the cluster does not answer; another of its servers is tried", "server", j.nc.ConnectedUrlRedacted())
		for _, nc := range []*nats.Conn{j.in, j.nc} {
			_ = nc.ForceReconnect() // it fails where the connection is closed
		}
	}
}

// linkSilence is how long a cluster may not answer before another of its servers is
// tried. It may take longer to choose a leader; then there is no harm in it.
const linkSilence = 5 * time.Second

// keepAlive does for a cluster what must not wait for its answers: it gives signs of
// life for what is at work, and looks after requests that got lost.
func (j *Journal) keepAlive() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-j.ctx.Done():
			return
		case now := <-tick.C:
			if now.Sub(renewed) >= renewal {
				renewed = now
				j.renew(now)
			}
			for _, q := range j.allQueues() {
				q.fresh.check(now)
				q.retries.check(now)
			}
		}
	}
}

// mend starts the embedded server again once the disk can be written to: a
// server that failed to write answers nothing more.
func (j *Journal) mend(cause error) {
	j.health.fall(cause)
	j.log.Error("the store cannot be written to; calls are refused until it can", "directory", j.options.Dir, "error", cause)
	if isDiskFull(cause) {
		j.giveWay()
	}
	last, told := "", false
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if sleep(j.ctx, pause) != nil {
			return
		}
		err := j.restart()
		if err == nil {
			break
		}
		if isDiskFull(err) {
			j.giveWay()
			if !told && pause >= time.Second { // what was given up may not be free at once
				told = true
				j.tellLack(err)
			}
		}
		level := slog.LevelDebug
		if errors.Is(err, ErrDamaged) && err.Error() != last {
			level = slog.LevelError
		}
		last = err.Error()
		j.log.Log(j.ctx, level, "the store still cannot be written to", "error", err)
	}
	j.link.Swap(newLink()).end() // before the account reads on: what came may have gone, see queue.accounted
	j.health.rise()
	j.log.Info("the store can be written to again", "directory", j.options.Dir)
	j.reconnected()
	// RETRY is not brought to the disk with each message, and may lack some.
	j.work.Go(func() {
		if err := j.restoreRetries(j.ctx); err != nil && j.ctx.Err() == nil {
			j.log.Warn("retries that were not stored could not be made again; those that are overdue are looked after", "error", err)
		}
	})
}

// restart starts the embedded server again, on a store that is on the disk as it is
// read.
func (j *Journal) restart() error {
	if err := writable(j.options.Dir); err != nil {
		return err
	}
	_ = j.server.stop() // what it cannot write is not counted on
	if err := j.rewriteUnproved(); err != nil {
		return err
	}
	if err := j.startServer(); err != nil {
		return err
	}
	return j.resume()
}

// resume waits until the connections have found the new server, and looks whether
// its streams have what was stored.
func (j *Journal) resume() error {
	ctx, cancel := context.WithTimeout(j.ctx, requestPatience)
	defer cancel()
	for _, nc := range []*nats.Conn{j.in, j.nc} {
		for nc.Status() != nats.CONNECTED {
			if err := sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	if err := j.ensure(ctx); err != nil {
		return err
	}
	calls, err := j.calls.Info(ctx)
	if err != nil {
		return err
	}
	outcomes, err := j.outcomes.Info(ctx)
	if err != nil {
		return err
	}
	readCalls, readOutcomes := j.account.position()
	readCalls = max(readCalls, j.acked.Load())
	if calls.State.LastSeq < readCalls || outcomes.State.LastSeq < readOutcomes {
		return damaged("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored. %s",
			calls.State.LastSeq, outcomes.State.LastSeq, readCalls, readOutcomes, j.howToGoOn())
	}
	return nil
}

// disconnected is called when a connection is lost.
func (j *Journal) disconnected(err error) {
	if err != nil && j.ctx.Err() == nil && j.options.NATS != nil {
		j.log.Warn("the connection to NATS is lost; it is tried again", "error", err)
	}
}

// reconnected is called when a connection is there again: what was asked for on
// the old one does not come.
func (j *Journal) reconnected() {
	j.warned.Store(nil)
	j.link.Swap(newLink()).end()
	for _, q := range j.allQueues() {
		q.fresh.reset()
		q.retries.reset()
		q.pull()
		q.mu.Lock()
		q.wake() // it handed out nothing while the store could not be written to
		q.mu.Unlock()
	}
}

func (j *Journal) allQueues() []*queue {
	j.mu.Lock()
	defer j.mu.Unlock()
	queues := make([]*queue, 0, len(j.queues))
	for _, q := range j.queues {
		queues = append(queues, q)
	}
	return queues
}

// renew gives the cluster a sign of life for each message at work, and back those
// that nobody here asks for.
func (j *Journal) renew(now time.Time) {
	for _, q := range j.allQueues() {
		q.mu.Lock()
		var give []string
		if len(q.wants) == 0 {
			give = q.giveBack(func(it *item) bool { return now.Sub(it.since) > ackWait/2 })
		}
		var alive []string
		for _, p := range q.parcels {
			if p.reply != "" {
				alive = append(alive, p.reply)
			}
		}
		for _, it := range q.items {
			if it.reply != "" {
				alive = append(alive, it.reply)
			}
		}
		q.mu.Unlock()
		for _, reply := range alive {
			_ = j.nc.Publish(reply, []byte("+WPI"))
		}
		for _, reply := range give {
			_ = j.nc.Publish(reply, []byte("-NAK"))
		}
	}
}

// giveBack takes items that nobody works at out of the queue, with their whole
// messages, and tells where they are to be given back. The lock is held.
func (q *queue) giveBack(match func(*item) bool) (replies []string) {
	whole := map[*parcel]int{} // how many items of it are ready
	for _, it := range q.items {
		if it.parcel != nil && !it.leased {
			whole[it.parcel]++
		}
	}
	for _, it := range q.ready.Take(func(it *item) bool {
		return match(it) && (it.parcel == nil || whole[it.parcel] == it.parcel.left)
	}) {
		delete(q.items, it.ref)
		switch p := it.parcel; {
		case p == nil:
			replies = append(replies, it.reply)
		case q.parcels[it.ref.seq] == p:
			delete(q.parcels, it.ref.seq)
			if p.reply != "" {
				replies = append(replies, p.reply)
			}
		}
	}
	return replies
}

// Ready returns nil if the journal can take calls now, or says why not.
func (j *Journal) Ready(ctx context.Context) error {
	if err := j.open(); err != nil {
		return err
	}
	if _, err := j.health.up(); err != nil {
		return err
	}
	if err := j.usage.room(j.options.MaxBytes); err != nil {
		return err
	}
	info, err := j.calls.Info(ctx)
	switch {
	case err != nil:
		return errors.Join(errors.New("journal: the store does not answer"), err)
	case info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "":
		return errors.New("journal: the cluster has no leader for CALLS")
	}
	return nil
}
