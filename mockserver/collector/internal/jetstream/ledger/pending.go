package ledger

import "github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"

// Finished returns the last message of CALLS before the first pending call.
func (a *Ledger) Finished() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	finished := a.Calls
	for _, b := range a.Accounts {
		if b.Fresh > 0 {
			finished = min(finished, b.Floor)
		}
		for ref := range b.Retries {
			finished = min(finished, ref.Seq-1)
		}
	}
	return finished
}

// IsFinished reports whether no calls are pending.
func (a *Ledger) IsFinished() bool {
	for _, b := range a.Accounts {
		if b.Fresh != 0 || len(b.Retries) > 0 {
			return false
		}
	}
	return true
}

// Finish raises all floors to a message that follows no pending calls.
func (a *Ledger) Finish(to uint64) {
	for _, b := range a.Accounts {
		b.advance(to)
	}
}

// Behind returns the destinations that have pending calls in messages before the given one.
func (a *Ledger) Behind(before uint64) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, b := range a.Accounts {
		pending := b.Fresh > 0 && b.Floor+1 < before
		for ref := range b.Retries {
			pending = pending || ref.Seq < before
		}
		if pending {
			names = append(names, name)
		}
	}
	return names
}

// IsOpen reports whether the first attempt of any part of a message has not ended.
func (b *Account) IsOpen(m *record.Calls) bool {
	if !b.Takes(m.Seq, m.Name) {
		return false
	}
	for part := range record.Parts(m.Calls) {
		if !b.Ended(record.Ref{Seq: m.Seq, Part: part}) {
			return true
		}
	}
	return false
}
