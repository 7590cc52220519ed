package delivery

const (
	// minEntries is how many entries of one destination are always worked at, if there
	// are so many. What is beyond stays in the journal while calls wait for their turn.
	minEntries = 4
	// maxHeldCalls bounds the calls of the entries that are worked at where another is
	// leased beyond minEntries: if the process dies before an entry has ended, those of
	// its calls that were delivered are delivered a second time.
	maxHeldCalls = 384
	// maxHeldInOrder is that where calls are delivered in an order: many of them wait for
	// others.
	maxHeldInOrder = 4096
	// maxEntries bounds the entries that are worked at. Beyond minEntries there is one
	// for each source that has none, and one for retries: calls that take long, or wait,
	// delay only those of their own source.
	maxEntries = 64
)

// An intake counts the entries of a destination that are worked at, and decides whether
// more should be leased. It must not be used concurrently.
type intake struct {
	inOrder  bool // entries are leased in the order of their positions
	entries  int  // that are worked at
	calls    int  // of these
	arriving int  // entries of these whose calls have not come to the gate

	more      func() // called when more is wanted than was when it was set; nil once it was
	wanting   bool   // something was wanted then
	laneEnded bool   // the last entry of a lane has ended since
}

// begin counts an entry that was leased. Its calls will come to the gate.
func (in *intake) begin(calls int) {
	in.more = nil
	in.entries++
	in.arriving++
	in.calls += calls
}

// arrive says that the calls of an entry have come to the gate.
func (in *intake) arrive() { in.arriving-- }

// end counts an entry less. lastOfLane says that its lane has no other.
func (in *intake) end(calls int, lastOfLane bool) {
	in.entries--
	in.calls -= calls
	in.laneEnded = in.laneEnded || lastOfLane
}

// takesAny reports whether another entry should be leased, whichever it is: there are
// few of them, or the gate is idle and their calls are not too many. Most of them may have
// ended, and wait for the journal to take their results.
func (in *intake) takesAny(idle bool) bool {
	held := maxHeldCalls
	if in.inOrder {
		held = maxHeldInOrder
	}
	return in.entries < minEntries || idle && in.calls <= held
}

// takesOtherLanes reports whether another entry should be leased if it is of a lane that
// has none.
func (in *intake) takesOtherLanes() bool { return !in.inOrder && in.entries < maxEntries }

// notify has more called, once and without waiting for it, when more is wanted than
// now. wanting says whether something is.
func (in *intake) notify(more func(), wanting bool) {
	in.more, in.wanting, in.laneEnded = more, wanting, false
}

// hasNewLane reports whether an entry of a lane is wanted that was not when notify was
// called.
func (in *intake) hasNewLane() bool {
	return in.takesOtherLanes() && (in.laneEnded || !in.wanting)
}

// wantMore calls what notify was given.
func (in *intake) wantMore() {
	if in.more != nil {
		in.more()
		in.more = nil
	}
}
