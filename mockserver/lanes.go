package mockserver

import (
	"math"
	"slices"
)

// A laneKey names a lane: a source, for calls that are tried for the first time, or
// all that are tried again.
type laneKey struct {
	source string
	again  bool
}

// lanes share the calls that may be under way fairly among the sources and what is
// tried again: the next to pass is of the lane that has the fewest under way, and of
// those the one that let one pass the longest ago. What is tried again has a fifth,
// where others wait. So what is slow, or fails, takes its own share and no other's. Lanes whose calls all fail leave a part to the others:
// a call may take seconds to fail. Within a lane the entries take turns.
type lanes struct {
	most  int // calls that may be under way of lanes whose calls all fail
	lines int // that have calls which wait
	all   map[laneKey]*lane
	turns uint64 // that were taken, and lanes that began
}

// firstAttempts is how many calls that are tried for the first time pass for each that
// is tried again.
const firstAttempts = 4

type lane struct {
	again   bool
	entries int // that are worked at
	calls   int // that are under way
	failed  int // in a row
	turn    uint64
	lines   []*gateLine // that have calls which wait; the first is the next to let one pass
}

// begin and end count the entries that are worked at; a lane is there while it has
// one. end reports whether that was the last.
func (s *lanes) begin(key laneKey) {
	if s.all == nil {
		s.all = map[laneKey]*lane{}
	}
	if s.all[key] == nil {
		s.turns++
		s.all[key] = &lane{again: key.again, turn: s.turns}
	}
	s.all[key].entries++
}

func (s *lanes) end(key laneKey) (last bool) {
	l := s.all[key]
	if l.entries--; l.entries == 0 {
		delete(s.all, key)
	}
	return l.entries == 0
}

// wait adds an entry whose calls wait.
func (s *lanes) wait(line *gateLine) {
	l := s.all[line.lane]
	l.lines = append(l.lines, line)
	s.lines++
}

// remove takes out an entry whose calls no longer wait.
func (s *lanes) remove(line *gateLine) {
	l := s.all[line.lane]
	l.lines = slices.DeleteFunc(l.lines, func(other *gateLine) bool { return other == line })
	s.lines--
}

// next returns the line whose turn it is, or nil if no call may pass.
func (s *lanes) next() *gateLine {
	if s.lines == 0 {
		return nil
	}
	failing := 0
	var first, sound *lane // of all, and of those that do not fail
	for _, l := range s.all {
		if l.fails() {
			failing += l.calls
		}
		if len(l.lines) == 0 {
			continue
		}
		if first == nil || s.before(l, first) {
			first = l
		}
		if !l.fails() && (sound == nil || s.before(l, sound)) {
			sound = l
		}
	}
	if failing >= s.most {
		first = sound
	}
	if first == nil {
		return nil
	}
	return first.lines[0]
}

// before reports whether it is the turn of a before that of b.
func (s *lanes) before(a, b *lane) bool {
	aCalls, aTurn := s.order(a)
	bCalls, bTurn := s.order(b)
	return aCalls < bCalls || aCalls == bCalls && aTurn < bTurn
}

func (s *lanes) order(l *lane) (calls int, turn uint64) {
	switch {
	case !l.again:
		return l.calls, l.turn
	case s.turns-l.turn < firstAttempts:
		return l.calls * firstAttempts, math.MaxUint64
	}
	return l.calls * firstAttempts, 0
}

// fails reports whether all of a lane's calls fail.
func (l *lane) fails() bool { return l.failed >= downAfter }

// pass lets the first call of the line pass whose turn it is.
func (s *lanes) pass(line *gateLine) *turn {
	l := s.all[line.lane]
	s.turns++
	l.turn = s.turns
	l.calls++
	t := line.waiting[0]
	line.waiting = line.waiting[1:]
	l.lines = slices.Delete(l.lines, 0, 1)
	if len(line.waiting) > 0 {
		l.lines = append(l.lines, line)
	} else {
		s.lines--
	}
	return t
}

// leave ends a call that has passed.
func (s *lanes) leave(line *gateLine, told tidings) {
	l := s.all[line.lane]
	l.calls--
	switch told {
	case nothing:
	case itAnswers:
		l.failed = 0
	default:
		l.failed++
	}
}

// waiting yields the lines that have calls which wait, in no order.
func (s *lanes) waiting(yield func(*gateLine) bool) {
	for _, l := range s.all {
		for _, line := range l.lines {
			if !yield(line) {
				return
			}
		}
	}
}

// taken returns what the lanes have an entry of: nothing more of it is wanted.
func (s *lanes) taken() (w Want) {
	for key := range s.all {
		if key.again {
			w.NoRetries = true
		} else {
			w.Except = append(w.Except, key.source)
		}
	}
	return w
}
