package ledger

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A simulation applies random operations to a list of records in memory, and computes the expected
// accounts.
type simulation struct {
	*testing.T
	random   *rand.Rand
	calls    []*record.Calls
	outcomes [][]record.Outcome
	want     map[string]*tracking.Ledger
	attached map[string]uint64
	open     []attempt // unfinished attempts
	ended    []record.Outcome
	ledger   *Live
	stored   []byte // encoded ledger at an earlier time
	base     []byte // encoded ledger after the last loss
	gone     map[uint64]bool
}

type attempt struct {
	destination string
	ref         record.Ref
	number      int
	places      []int
}

// TestSimulatedCrashes repeatedly resets a ledger to an older state and compares it with a
// model and with a recount. LEDGER_SEED and LEDGER_STEPS configure it.
func TestSimulatedCrashes(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("LEDGER_SEED"), 10, 64)
	steps, _ := strconv.Atoi(os.Getenv("LEDGER_STEPS"))
	s := &simulation{
		T: t, random: rand.New(rand.NewPCG(seed, 1)), ledger: NewLive(New()),
		want: map[string]*tracking.Ledger{}, attached: map[string]uint64{}, gone: map[uint64]bool{},
	}
	s.stored = s.ledger.Encode()
	s.base = s.stored
	s.attach("crm")
	s.attach("mail", "web")
	crashes, losses := 0, 0
	for range max(steps, 3000) {
		switch n := s.random.IntN(20); {
		case n == 0 && s.random.IntN(5) == 0:
			for len(s.open) > 0 {
				s.end()
			}
			s.stored = s.ledger.Encode()
		case n < 5:
			s.accept([]string{"web", "ios"}[s.random.IntN(2)], 1+s.random.IntN(300))
		case n < 15:
			s.end()
		case n < 16:
			s.repeat()
		case n < 17:
			s.replay()
		case n < 18:
			s.crash()
			crashes++
		case n < 19 && s.random.IntN(4) == 0:
			s.lose()
			losses++
		default:
			s.stored = s.ledger.Encode()
		}
		s.check()
	}
	s.recount()
	t.Logf("%d crashes, %d losses, %d messages of calls, %d of outcomes (LEDGER_SEED=%d)", crashes, losses, len(s.calls), len(s.outcomes), seed)
}

func (s *simulation) add(m *record.Calls) uint64 {
	m.Seq = uint64(len(s.calls) + 1)
	m.At = time.UnixMilli(int64(1000 * m.Seq))
	s.calls = append(s.calls, m)
	s.ledger.ReadCalls(m)
	return m.Seq
}

func (s *simulation) attach(destination string, sources ...string) {
	s.attached[destination] = s.add(&record.Calls{Kind: record.KindAttach, Name: destination, Control: record.Control{Sources: sources}})
	s.want[destination] = &tracking.Ledger{Destination: destination}
}

func (s *simulation) accept(source string, calls int) {
	seq := s.add(&record.Calls{Kind: record.KindCalls, Name: source, Calls: calls})
	for _, destination := range []string{"crm", "mail"} { // in the same order in each run with a seed
		if destination == "mail" && source != "web" {
			continue
		}
		l := s.want[destination]
		l.Accepted += int64(calls)
		l.Pending += int64(calls)
		for part := range record.Parts(calls) {
			s.open = append(s.open, attempt{destination, record.Ref{Seq: seq, Part: part}, 1, placesOf(part, record.PartSize(calls, part))})
		}
	}
}

func placesOf(part, n int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = part*record.PartCalls + i
	}
	return places
}

// end finishes a random open attempt with a random result.
func (s *simulation) end() {
	if len(s.open) == 0 {
		return
	}
	at := s.random.IntN(len(s.open))
	a := s.open[at]
	s.open = slices.Delete(s.open, at, at+1)
	o := record.Outcome{
		Destination: a.destination, Attached: s.attached[a.destination], Ref: a.ref, Attempt: a.number,
		Decided: time.UnixMilli(1), Due: time.UnixMilli(2), Accepted: time.UnixMilli(1),
	}
	for _, place := range a.places {
		switch s.random.IntN(4) {
		case 0:
			o.Again = append(o.Again, place)
		case 1:
			o.Failed = append(o.Failed, record.Failure{Place: place, Reason: "because"})
		case 2:
			o.Filtered++
		default:
			o.Delivered++
		}
	}
	if len(o.Again) > 0 {
		s.open = append(s.open, attempt{a.destination, a.ref, a.number + 1, o.Again})
	}
	l := s.want[a.destination]
	l.Pending -= int64(len(a.places) - len(o.Again))
	l.Delivered += int64(o.Delivered)
	l.Filtered += int64(o.Filtered)
	l.Failed += int64(len(o.Failed))
	s.ended = append(s.ended, o)
	s.write(o)
}

// repeat adds a second outcome of a finished attempt, with a different result.
func (s *simulation) repeat() {
	if len(s.ended) == 0 {
		return
	}
	o := s.ended[s.random.IntN(len(s.ended))]
	o.Delivered, o.Filtered, o.Again, o.Failed = o.Calls(), 0, nil, nil
	s.write(o)
}

// replay makes failed calls pending again.
func (s *simulation) replay() {
	l := s.want["crm"]
	if l.Failed == 0 {
		return
	}
	n := 1 + s.random.IntN(int(min(l.Failed, record.PartCalls)))
	seq := s.add(&record.Calls{Kind: record.KindReplay, Name: "crm", Calls: n, Control: record.Control{From: uint8(tracking.StateFailed), Oldest: 1}})
	l.Failed -= int64(n)
	l.Pending += int64(n)
	s.open = append(s.open, attempt{"crm", record.Ref{Seq: seq}, 1, placesOf(0, n)})
}

func (s *simulation) write(o record.Outcome) {
	s.outcomes = append(s.outcomes, []record.Outcome{o})
	s.read(len(s.outcomes))
}

func (s *simulation) read(outcomes int) {
	require.NoError(s, s.ledger.ReadOutcomes(s.Context(), &record.Outcomes{Seq: uint64(outcomes), All: s.outcomes[outcomes-1]}))
}

// crash resets the ledger to its stored state.
func (s *simulation) crash() {
	stored, err := Decode(s.stored)
	require.NoError(s, err)
	s.ledger = NewLive(stored)
	calls, outcomes := s.ledger.Position()
	for _, m := range s.calls[calls:] {
		s.ledger.ReadCalls(m)
	}
	for n := int(outcomes) + 1; n <= len(s.outcomes); n++ {
		s.read(n)
	}
}

// lose removes messages of CALLS after a crash: random messages, several in a row, or the last
// messages. The recent file contains most of the later messages.
func (s *simulation) lose() {
	s.recount()
	l, err := Decode(s.stored)
	require.NoError(s, err)
	position, outcomes := l.Calls, l.Outcomes
	calls := Extent{First: 1, Last: uint64(len(s.calls))}
	from := s.random.Uint64N(calls.Last)
	if behind := calls.Last - position; behind > 0 && s.random.IntN(4) > 0 {
		from = position + s.random.Uint64N(behind)
	}
	to := min(calls.Last, from+1+s.random.Uint64N(4))
	if s.random.IntN(3) == 0 {
		to = calls.Last
	}
	var noted []record.Accepted
	unnoted := map[uint64]bool{}
	for seq := uint64(1); seq <= uint64(len(s.calls)); seq++ {
		m := s.calls[seq-1]
		if m.Kind != record.KindAttach && seq > from && seq <= to {
			s.gone[seq] = true
		}
		switch {
		case m.Kind == record.KindReplay:
			noted = append(noted, record.Accepted{Seq: seq, Calls: m.Calls, Destination: m.Name, From: tracking.State(m.From)})
		case m.Kind == record.KindCalls && s.random.IntN(10) > 0:
			noted = append(noted, record.Accepted{Seq: seq, Calls: m.Calls, Source: m.Name})
		default:
			unnoted[seq] = seq > position
		}
		if s.gone[seq] {
			calls.Holes = append(calls.Holes, record.Span{First: seq, Last: seq})
		}
	}
	for s.gone[calls.Last] {
		calls.Last--
		calls.Holes = calls.Holes[:len(calls.Holes)-1]
	}
	s.open = slices.DeleteFunc(s.open, func(a attempt) bool {
		if !s.gone[a.ref.Seq] {
			return false
		}
		n, want := int64(len(a.places)), s.want[a.destination]
		if want.Pending -= n; a.number == 1 && unnoted[a.ref.Seq] {
			want.Accepted -= n // no record of these calls is left
		} else {
			want.Lost += n
		}
		return true
	})

	salvage := l.Salvage(calls, Extent{First: 1, Last: uint64(len(s.outcomes))})
	s.each(calls, position+1, l.ReadCalls)
	salvage.ReadNoted(noted)
	for n := int(outcomes) + 1; n <= len(s.outcomes); n++ {
		for i := range s.outcomes[n-1] {
			salvage.ReadOutcome(&s.outcomes[n-1][i], uint64(n))
		}
	}
	s.each(calls, salvage.First(), salvage.FindStored)
	salvage.End(uint64(len(s.calls)), time.UnixMilli(1), "because")
	s.ledger, s.base = NewLive(l), l.Encode()
	s.stored = s.base
}

// each calls read with the remaining messages of CALLS, starting with message first.
func (s *simulation) each(calls Extent, first uint64, read func(*record.Calls)) {
	for seq := first; seq <= calls.Last; seq++ {
		if calls.Has(seq) {
			read(s.calls[seq-1])
		}
	}
}

func (s *simulation) check() {
	ledgers, _ := s.ledger.Ledgers()
	for _, l := range ledgers {
		l.OldestPending = time.Time{}
		require.Equal(s, *s.want[l.Destination], l)
		require.True(s, l.Holds())
	}
}

// recount compares the ledger with a recount since the last loss.
func (s *simulation) recount() {
	base, err := Decode(s.base)
	require.NoError(s, err)
	r := NewRecount(base, s.ledger.State(nil))
	for i, m := range s.calls {
		if uint64(i) >= base.Calls {
			r.Accept(m)
		} else if m.Kind == record.KindCalls && !s.gone[m.Seq] {
			for name, a := range base.Accounts {
				r.Accounts[name].AddUnattempted(a, m)
			}
		}
	}
	for _, outcomes := range s.outcomes[base.Outcomes:] {
		for i := range outcomes {
			r.Count(&outcomes[i])
		}
	}
	addPending(r)
	for _, v := range r.Compare() {
		require.Empty(s, v.Problems)
		require.Equal(s, s.want[v.Destination].Pending, v.Pending)
	}
}

// addPending counts the pending calls of a recount.
func addPending(r *Recount) {
	for _, a := range r.Accounts {
		a.Undelivered.All(func(_ record.Ref, calls int, at time.Time) bool {
			a.AddPending(calls, at)
			return true
		})
		for _, w := range a.Waiting {
			a.AddPending(int(w.Calls), time.UnixMilli(w.Accepted))
		}
	}
}
