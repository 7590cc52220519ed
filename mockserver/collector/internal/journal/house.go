package journal

import (
	"context"
	"errors"
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
	renewed, raised, checkpoints := time.Now(), time.Now(), checkpointer{at: time.Now()}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestPatience)
		defer cancel()
		if err := j.checkpoint(ctx, &checkpoints, true); err != nil {
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
			if err := j.measure(j.ctx); err != nil && j.ctx.Err() == nil {
				j.log.Debug("the streams cannot be measured", "error", err)
			}
			j.trimIfShort()
			if err := j.checkpoint(j.ctx, &checkpoints, false); err != nil && j.ctx.Err() == nil {
				j.log.Warn("the account is not stored; it is tried again", "error", err)
			}
			if j.options.NATS == nil {
				continue
			}
			if now.Sub(renewed) >= renewal {
				renewed = now
				j.renew(now)
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

// mend starts the embedded server again once the disk can be written to: a
// server that failed to write answers nothing more.
func (j *Journal) mend(cause error) {
	j.health.fall(cause)
	j.log.Error("the store cannot be written to; calls are refused until it can", "directory", j.options.Dir, "error", cause)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if sleep(j.ctx, pause) != nil {
			return
		}
		err := writable(j.options.Dir)
		if err == nil {
			j.server.stop()
			if err = j.server.start(); err == nil {
				err = j.resume()
			}
		}
		if err == nil {
			break
		}
		j.log.Debug("the store still cannot be written to", "error", err)
	}
	select {
	case <-j.server.trouble: //nolint:errcheck // it is of the server that was stopped
	default:
	}
	j.health.rise()
	j.log.Info("the store can be written to again", "directory", j.options.Dir)
	j.reconnected()
}

// resume waits until the connections have found the new server, and its streams
// are those that were there.
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
	return j.ensure(ctx)
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
		if q.waiting == 0 {
			give = q.giveBack(func(it *item) bool { return now.Sub(it.since) > ackWait/2 })
		}
		var alive []string
		for _, p := range q.parcels {
			alive = append(alive, p.reply)
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
	for _, it := range q.ready.take(func(it *item) bool {
		return match(it) && (it.parcel == nil || whole[it.parcel] == it.parcel.left)
	}) {
		delete(q.items, it.ref)
		switch p := it.parcel; {
		case p == nil:
			replies = append(replies, it.reply)
		case q.parcels[it.ref.seq] == p:
			delete(q.parcels, it.ref.seq)
			replies = append(replies, p.reply)
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
