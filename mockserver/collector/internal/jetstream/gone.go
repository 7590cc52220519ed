package jetstream

// An extent is what a stream has.
type extent struct {
	first, last uint64
	holes       []span // messages between that are gone
}

// begin takes it for a hole that a stream does not begin where it should.
func (e *extent) begin(first uint64) {
	if e.first > first {
		e.holes = append([]span{{first, e.first - 1}}, e.holes...)
	}
}

// acceptGone counts the calls of messages after a known one that are gone, and returns
// which these are.
func (a *account) acceptGone(all []acceptedCalls, there extent, known uint64) map[uint64]bool {
	gone := map[uint64]bool{}
	for _, m := range all {
		if m.seq <= known || there.has(m.seq) || gone[m.seq] {
			continue
		}
		gone[m.seq] = true
		for _, b := range a.books {
			if b.takes(m.seq, m.source) {
				b.ledger.Accepted += int64(m.calls)
				b.fresh += int64(m.calls)
			}
		}
	}
	return gone
}

// tried reports whether an attempt at a part has ended.
func (b *book) tried(ref callsRef, attempt int) bool {
	if r, waits := b.retries[ref]; waits {
		return r.attempt > attempt
	}
	return b.ended(ref)
}

// has reports whether a message is there.
func (e *extent) has(seq uint64) bool {
	return seq >= e.first && seq <= e.last && !contains(e.holes, span{seq, seq})
}

// dropGone takes out what is pending and no longer stored, and returns how many calls
// that is. stored is how many are there that were never tried.
func (b *book) dropGone(calls, outcomes extent, stored int64) (lost int64) {
	lost = b.fresh - stored
	b.fresh = stored
	for ref, r := range b.retries {
		unknown := r.outcome != 0 && r.which == callSet{} && !outcomes.has(r.outcome)
		if !calls.has(ref.seq) || unknown {
			lost += int64(r.calls)
			delete(b.retries, ref)
		} else if r.outcome != 0 && !outcomes.has(r.outcome) {
			r.outcome = 0 // its number may be used again; only what was noted is lost
			b.retries[ref] = r
		}
	}
	return lost
}
