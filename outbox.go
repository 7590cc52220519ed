package analytics

import "time"

// outbox is the batches that wait to be sent. It is guarded by the pipeline's mu.
type outbox struct {
	sealed fifo      // to be compressed; used with Config.Gzip alone
	ready  fifo      // to be sent
	busy   bool      // MaxInFlight batches are being sent; the loop takes the next by itself
	gate   time.Time // no attempt begins before it, as a collector asked; zero if none did
}

// oldest takes out the batch that has waited longest; it is nil if none waits.
func (o *outbox) oldest() *batch {
	if b := o.ready.pop(); b != nil {
		return b
	}
	return o.sealed.pop()
}

// hold closes the gate until a time, unless it is closed for longer.
func (o *outbox) hold(until time.Time) {
	if until.After(o.gate) {
		o.gate = until
	}
}

// held returns until when the gate is closed. It opens the gate when its time is
// over.
func (o *outbox) held(now time.Time) time.Time {
	if !o.gate.After(now) {
		o.gate = time.Time{}
	}
	return o.gate
}

// fifo is a queue of batches.
type fifo []*batch

// push appends a batch.
func (q *fifo) push(b *batch) { *q = append(*q, b) }

// pop takes the first batch out; it is nil if there is none.
func (q *fifo) pop() *batch {
	if len(*q) == 0 {
		return nil
	}
	b := (*q)[0]
	(*q)[0] = nil
	*q = (*q)[1:]
	return b
}

// sealTimer says when the open batch is sealed though it is not full. It is
// guarded by the pipeline's mu.
type sealTimer struct {
	due      time.Time // when the open batch is sealed at the latest
	lastSeal time.Time // when a batch was last sealed
	watching time.Time // when the loop calls expired next; zero if it does not
}

// opened sets the time of a new batch. It reports whether the loop is to be woken.
func (t *sealTimer) opened(now time.Time, after time.Duration) (wake bool) {
	// The interval begins with the last batch. After a long pause it begins with
	// this call, which would be sent alone otherwise.
	if t.due = t.lastSeal.Add(after); !t.due.After(now) {
		t.due = now.Add(after)
	}
	if wake = t.watching.IsZero(); wake {
		t.watching = t.due
	}
	return wake
}

// sealed notes that a batch was sealed.
func (t *sealTimer) sealed(now time.Time) { t.lastSeal = now }

// expired reports whether the open batch, if there is one, is to be sealed. It
// sets watching anew.
func (t *sealTimer) expired(now time.Time, open bool) bool {
	if t.watching.IsZero() || now.Before(t.watching) {
		return false
	}
	t.watching = time.Time{}
	if !open {
		return false
	}
	if now.Before(t.due) {
		t.watching = t.due
		return false
	}
	return true
}
