package delivery

const (
	// minEntries is the number of entries that are leased regardless of their size. Other
	// entries stay in the journal while calls wait for their turn.
	minEntries = 4
	// maxHeldCalls is the number of calls above which no entries beyond minEntries are leased.
	// After a crash, delivered calls of unfinished entries are delivered again.
	maxHeldCalls = 384
	// maxHeldInOrder is maxHeldCalls for ordered delivery, where many calls wait for others.
	maxHeldInOrder = 4096
	// maxEntries is the maximum number of active entries. Beyond minEntries, each source
	// without an entry and the retries may have one, so slow calls delay only their own
	// source.
	maxEntries = 64
)

// An intake counts the active entries of a destination and decides whether to lease more. It
// is not safe for concurrent use.
type intake struct {
	inOrder  bool // entries are leased in the order of their positions
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

// end removes an entry. lastOfLane reports that it was the last entry of its lane.
func (in *intake) end(calls int, lastOfLane bool) {
	in.entries--
	in.calls -= calls
	in.laneEnded = in.laneEnded || lastOfLane
}

// takesAny reports whether to lease another entry from any lane: few entries are active, or
// the gate is idle and the entries have few calls. Most of these may have ended and wait for
// the journal to store their results.
func (in *intake) takesAny(idle bool) bool {
	held := maxHeldCalls
	if in.inOrder {
		held = maxHeldInOrder
	}
	return in.entries < minEntries || idle && in.calls <= held
}

// takesOtherLanes reports whether to lease another entry from a lane without entries.
func (in *intake) takesOtherLanes() bool { return !in.inOrder && in.entries < maxEntries }

// notify sets the callback for the time when more entries are wanted than now. It is called
// once. wanting reports whether any are wanted now.
func (in *intake) notify(more func(), wanting bool) {
	in.more, in.wanting, in.laneEnded = more, wanting, false
}

// hasNewLane reports whether entries of another lane are wanted since notify.
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
