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

// A simulation is a log of records in memory, to which things happen at random, and what
// must come of them.
type simulation struct {
	*testing.T
	random   *rand.Rand
	calls    []*record.Calls
	outcomes [][]record.Outcome
	want     map[string]*tracking.Ledger
	attached map[string]uint64
	open     []attempt // that have not ended
	ended    []record.Outcome
	ledger   *Ledger
	stored   []byte // the ledger as it was some time ago
}

// An attempt is one that a destination is to make.
type attempt struct {
	destination string
	ref         record.Ref
	number      int
	places      []int
}

// TestSimulatedCrashes has a ledger forget what it has read since it was last stored,
// again and again, and holds it against a model and against a recount. LEDGER_SEED says
// what happens, and LEDGER_STEPS how much.
func TestSimulatedCrashes(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("LEDGER_SEED"), 10, 64)
	steps, _ := strconv.Atoi(os.Getenv("LEDGER_STEPS"))
	s := &simulation{
		T: t, random: rand.New(rand.NewPCG(seed, 1)), ledger: New(),
		want: map[string]*tracking.Ledger{}, attached: map[string]uint64{},
	}
	s.stored = s.ledger.Encode()
	s.attach("crm")
	s.attach("mail", "web")
	crashes := 0
	for range max(steps, 3000) {
		switch n := s.random.IntN(20); {
		case n < 5:
			s.accept([]string{"web", "ios"}[s.random.IntN(2)], 1+s.random.IntN(300))
		case n < 15:
			s.end()
		case n < 16:
			s.repeat()
		case n < 17:
			s.replay()
		case n < 19:
			s.crash()
			crashes++
		default:
			s.stored = s.ledger.Encode()
		}
		s.check()
	}
	s.recount()
	t.Logf("%d crashes, %d messages of calls, %d of outcomes (LEDGER_SEED=%d)", crashes, len(s.calls), len(s.outcomes), seed)
}

func (s *simulation) add(m *record.Calls) uint64 {
	m.Seq = uint64(len(s.calls) + 1)
	m.At = time.UnixMilli(int64(1000 * m.Seq))
	s.calls = append(s.calls, m)
	s.ledger.ReadCalls(m)
	return m.Seq
}

func (s *simulation) attach(destination string, sources ...string) {
	s.attached[destination] = s.add(&record.Calls{Kind: record.KindAttach, Name: destination, Sources: sources})
	s.want[destination] = &tracking.Ledger{Destination: destination}
}

func (s *simulation) accept(source string, calls int) {
	seq := s.add(&record.Calls{Kind: record.KindCalls, Name: source, Calls: calls})
	for destination, l := range s.want {
		if destination == "mail" && source != "web" {
			continue
		}
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

// end ends one of the attempts that are open, in any way.
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

// repeat has a process that was thought dead end an attempt that has ended, in another
// way.
func (s *simulation) repeat() {
	if len(s.ended) == 0 {
		return
	}
	o := s.ended[s.random.IntN(len(s.ended))]
	o.Delivered, o.Filtered, o.Again, o.Failed = o.Calls(), 0, nil, nil
	s.write(o)
}

// replay makes failed calls due again.
func (s *simulation) replay() {
	l := s.want["crm"]
	if l.Failed == 0 {
		return
	}
	n := 1 + s.random.IntN(int(min(l.Failed, record.PartCalls)))
	seq := s.add(&record.Calls{Kind: record.KindReplay, Name: "crm", Calls: n, From: tracking.StateFailed, Oldest: time.UnixMilli(1)})
	l.Failed -= int64(n)
	l.Pending += int64(n)
	s.open = append(s.open, attempt{"crm", record.Ref{Seq: seq}, 1, placesOf(0, n)})
}

func (s *simulation) write(o record.Outcome) {
	s.outcomes = append(s.outcomes, []record.Outcome{o})
	s.read(len(s.outcomes))
}

func (s *simulation) read(outcomes int) {
	require.NoError(s, s.ledger.ReadOutcomes(s.Context(), uint64(outcomes), record.WriteID{}, s.outcomes[outcomes-1]))
}

// crash goes on with the ledger as it was stored last.
func (s *simulation) crash() {
	var err error
	s.ledger, err = Decode(s.stored)
	require.NoError(s, err)
	calls, outcomes := s.ledger.Position()
	for _, m := range s.calls[calls:] {
		s.ledger.ReadCalls(m)
	}
	for n := int(outcomes) + 1; n <= len(s.outcomes); n++ {
		s.read(n)
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

// recount counts all records anew, and compares.
func (s *simulation) recount() {
	r := NewRecount(New())
	r.Now = s.ledger.Verified(nil)
	for _, m := range s.calls {
		r.Accept(m)
	}
	for _, outcomes := range s.outcomes {
		for i := range outcomes {
			r.Count(&outcomes[i])
		}
	}
	for _, b := range r.Accounts {
		b.Undelivered.All(func(_ record.Ref, calls int, at time.Time) bool {
			b.IsPending(calls, at)
			return true
		})
		for _, w := range b.Waiting {
			b.IsPending(int(w.Calls), time.UnixMilli(w.Accepted))
		}
	}
	for _, v := range r.Compare() {
		require.Empty(s, v.Problems)
		require.Equal(s, s.want[v.Destination].Pending, v.Pending)
	}
}
