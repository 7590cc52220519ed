package jetstream

// finished returns the message of CALLS up to which every destination is done.
func (a *account) finished() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	finished := a.calls
	for _, b := range a.books {
		if b.fresh > 0 {
			finished = min(finished, b.floor)
		}
		for ref := range b.retries {
			finished = min(finished, ref.seq-1)
		}
	}
	return finished
}

// isFinished tells whether nothing is pending.
func (a *account) isFinished() bool {
	for _, b := range a.books {
		if b.fresh != 0 || len(b.retries) > 0 {
			return false
		}
	}
	return true
}

// finish moves the floors up to a message up to which all is done.
func (a *account) finish(to uint64) {
	for _, b := range a.books {
		b.rise(to)
	}
}

// behind returns the destinations with something pending before a message.
func (a *account) behind(before uint64) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, b := range a.books {
		pending := b.fresh > 0 && b.floor+1 < before
		for ref := range b.retries {
			pending = pending || ref.seq < before
		}
		if pending {
			names = append(names, name)
		}
	}
	return names
}

// isOpen tells whether a part of a message waits for its first attempt's end.
func (b *book) isOpen(m *callsMessage) bool {
	if !b.takes(m.seq, m.name) {
		return false
	}
	for part := range parts(m.calls) {
		if !b.ended(callsRef{m.seq, part}) {
			return true
		}
	}
	return false
}
