package analytics

import "slices"

// flush is a wait for the end of all calls that were accepted before it. It is
// guarded by the pipeline's mu.
type flush struct {
	upTo  uint64        // the number of the last call that it waits for
	left  int64         // calls that have not ended
	since Drops         // drops that an earlier flush has reported
	done  chan struct{} // closed with mu held when none is left
}

// flushes are the flushes that wait, and what they have reported. It is guarded by
// the pipeline's mu.
type flushes struct {
	waiting  []*flush
	reported Drops // drops that a flush has reported
	failure  error // what the latest attempt that failed met, if no flush has reported it
}

// start begins a wait for left calls, the last of which has the number upTo.
func (w *flushes) start(upTo uint64, left int64) *flush {
	f := &flush{upTo: upTo, left: left, since: w.reported, done: make(chan struct{})}
	if left == 0 {
		close(f.done)
	} else {
		w.waiting = append(w.waiting, f)
	}
	return f
}

// ended counts calls that have ended, the first of which has the number seq.
func (w *flushes) ended(seq uint64, calls int64) {
	waiting := w.waiting[:0]
	for _, f := range w.waiting {
		if seq <= f.upTo {
			f.left -= min(calls, int64(f.upTo-seq)+1)
			if f.left <= 0 {
				close(f.done)
				continue
			}
		}
		waiting = append(waiting, f)
	}
	clear(w.waiting[len(waiting):])
	w.waiting = waiting
}

// cancel ends a wait.
func (w *flushes) cancel(f *flush) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *flush) bool { return other == f })
}

// outcome is the error of a flush, given all drops so far; cut is the error of the
// context that ended the wait. It counts every drop that no flush has reported: a
// batch may have been dropped just before the flush began.
func (w *flushes) outcome(f *flush, dropped Drops, cut error, spooled bool) error {
	dropped = dropped.minus(f.since)
	if f.left == 0 && dropped == (Drops{}) {
		return nil
	}
	return &UndeliveredError{Dropped: dropped, Pending: f.left, Err: cut, Cause: w.failure, spooled: spooled}
}

// report marks all drops so far as reported.
func (w *flushes) report(dropped Drops) { w.reported, w.failure = dropped, nil }
