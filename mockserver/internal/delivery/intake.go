package delivery

const (
	// minEntries is the number of entries that are leased regardless of their size. While calls
	// wait for their turn, other entries stay in the journal.
	minEntries = 4
	// maxLeasedCalls limits the leased calls. Above this limit, and above the maximum number in
	// flight, no lane gets another entry beyond minEntries. The limit is low because a crash
	// causes repeated delivery of the calls of unfinished entries.
	maxLeasedCalls = 384
	// maxLeasedInOrder replaces maxLeasedCalls with ordered delivery, where many calls wait for
	// earlier calls.
	maxLeasedInOrder = 4096
	// maxEntries is the maximum number of active entries. Beyond minEntries, only lanes without
	// an entry may get one, so slow calls delay only their own source.
	maxEntries = 64
)

// An intake counts the active entries of a destination and decides whether to lease more. It
// is not safe for concurrent use.
type intake struct {
	inOrder  bool // entries are leased in the order of their positions
	maxCalls int  // maximum number of calls in flight
	entries  int  // active entries
	calls    int  // calls of active entries
	arriving int  // active entries whose calls are not at the gate yet

	more      func() // callback of notify; nil after its call
	wanting   bool   // argument of notify
	laneEnded bool   // the last entry of a lane has ended since notify
}

// begin adds a leased entry.
func (in *intake) begin(calls int) {
	in.more = nil
	in.entries++
	in.arriving++
	in.calls += calls
}

// arrive reports that the calls of an entry are at the gate.
func (in *intake) arrive() { in.arriving-- }

// end removes an entry. lastOfLane reports that its lane has no other entry.
func (in *intake) end(calls int, lastOfLane bool) {
	in.entries--
	in.calls -= calls
	in.laneEnded = in.laneEnded || lastOfLane
}

// takesAny reports whether to lease another entry from any lane. It returns true if few entries are
// active, or if the gate is idle and the active entries have few calls. The gate can be idle while
// entries wait for the journal to store their results.
func (in *intake) takesAny(idle bool) bool {
	limit := max(maxLeasedCalls, in.maxCalls)
	if in.inOrder {
		limit = max(maxLeasedInOrder, in.maxCalls)
	}
	return in.entries < minEntries || idle && in.calls <= limit
}

// takesOtherLanes reports whether to lease another entry from a lane without entries.
func (in *intake) takesOtherLanes() bool { return !in.inOrder && in.entries < maxEntries }

// notify sets a callback. It is called once, when more entries are wanted than now. wanting
// reports whether any entries are wanted now.
func (in *intake) notify(more func(), wanting bool) {
	in.more, in.wanting, in.laneEnded = more, wanting, false
}

// hasNewLane reports whether entries of other lanes are wanted now but were not at the last
// notify.
func (in *intake) hasNewLane() bool {
	return in.takesOtherLanes() && (in.laneEnded || !in.wanting)
}

// wantMore calls the callback of notify.
func (in *intake) wantMore() {
	if in.more != nil {
		in.more()
		in.more = nil
	}
}
