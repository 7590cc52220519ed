package journal

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A value consists of a source and a number, such as "a1". A number after a colon is the time of the
// value, in tenths of a second after begin.
type value struct {
	name   string
	due    time.Time
	number uint64 // digits after the source
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func queue(values ...value) *WaitingQueue[value] {
	q := NewWaitingQueue(func(v value) string { return v.name[:1] }, func(v value) time.Time { return v.due }, func(v value) uint64 { return v.number })
	for _, v := range values {
		q.Push(v)
	}
	return q
}

func fresh(names string) (values []value) {
	for name := range strings.FieldsSeq(names) {
		number, _ := strconv.ParseUint(name[1:], 10, 64)
		values = append(values, value{name: name, number: number})
	}
	return values
}

func timed(names string) []value {
	values := fresh(names)
	for i := range values {
		values[i].due = begin.Add(time.Duration(i) * time.Second)
	}
	return values
}

func TestPop(t *testing.T) {
	for name, test := range map[string]struct {
		values  []value
		at      time.Duration // time of the Pop after begin
		except  string
		noTimed bool
		want    string
		next    time.Duration // due time of the next value, relative to begin; 0 if no value remains
	}{
		"one source in its order":         {values: fresh("a1 a2 a3"), want: "a1 a2 a3"},
		"sources take turns":              {values: fresh("a1 a2 a3 a4 b1 b2 c1"), want: "a1 b1 c1 a2 b2 a3 a4"},
		"a source is excluded":            {values: fresh("a1 a2 b1 a3 b2 c1"), except: "a", want: "b1 c1 b2"},
		"all sources are excluded":        {values: fresh("a1 b1"), except: "a b"},
		"due values by time":              {values: timed("a0 b1 a2 c3"), at: 2 * time.Second, want: "a0 b1 a2", next: 3 * time.Second},
		"due values get every fifth turn": {values: append(timed("t0 t1"), fresh("a1 a2 a3 a4 a5 a6 a7 a8 a9")...), at: time.Minute, want: "a1 a2 a3 a4 t0 a5 a6 a7 a8 t1 a9"},
		"due values do not wait":          {values: append(timed("t0 t1"), fresh("a1 a2")...), at: time.Minute, except: "a", want: "t0 t1"},
		"no values with a time":           {values: append(timed("t0 t1"), fresh("a1 a2")...), at: time.Minute, noTimed: true, want: "a1 a2"},
	} {
		t.Run(name, func(t *testing.T) {
			q, now, except := queue(test.values...), begin.Add(test.at), strings.Fields(test.except)
			var got []string
			for {
				v, at, ok := q.Pop(now, except, test.noTimed)
				if !ok {
					if want := begin.Add(test.next); test.next != 0 && !at.Equal(want) || test.next == 0 && !at.IsZero() {
						t.Errorf("the next is due %v", at)
					}
					break
				}
				got = append(got, v.name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// TestNext checks that Next yields only due values, and the earliest one among them.
func TestNext(t *testing.T) {
	q := queue(append(timed("t0 t1 t2 t3"), fresh("a1")...)...)
	for n, want := range []string{"", "t0", "t0 t1", "t0 t1", "t0 t1"} {
		var got []string
		for v := range q.Next(begin.Add(time.Second), n) {
			got = append(got, v.name)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("up to %d: got %v, want %s", n, got, want)
		}
	}
}

// TestPushAgain checks that a popped value returns to its place when it is pushed again.
func TestPushAgain(t *testing.T) {
	q := queue(fresh("a1 a2 a4 b1")...)
	first, _, _ := q.Pop(begin, nil, false)
	for _, v := range append(fresh("b0 a3"), first) {
		q.Push(v)
	}
	var got []string
	for q.Fresh() > 0 {
		v, _, _ := q.Pop(begin, nil, false)
		got = append(got, v.name)
	}
	if want := "b0 a1 b1 a2 a3 a4"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestPopInOrder checks that sources do not take turns, and that values beyond the limit wait.
func TestPopInOrder(t *testing.T) {
	q := queue(append(timed("t0 t1 t2"), fresh("a1 b2 b3 a4 c6 b5 a9")...)...)
	if first, ok := q.First(); !ok || first != 1 {
		t.Errorf("the first is %d, want 1", first)
	}
	now := begin.Add(time.Second)
	var got []string
	for {
		v, at, ok := q.PopInOrder(now, 8)
		if !ok {
			if want := begin.Add(2 * time.Second); !at.Equal(want) {
				t.Errorf("the next is due %v, want %v", at, want)
			}
			break
		}
		got = append(got, v.name)
	}
	if want := "t0 t1 a1 b2 b3 a4 b5 c6"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if first, ok := q.First(); !ok || first != 9 {
		t.Errorf("the first is %d, want 9", first)
	}
}

// Due values come first because later values may belong to the same user.
func TestPopInOrderPrefersDueValues(t *testing.T) {
	q := queue(append(timed("t0 t1 t2 t3 t4 t5 t6"), fresh("a1 b2 a3")...)...)
	var got []string
	now := begin.Add(time.Minute)
	for v, _, ok := q.PopInOrder(now, 8); ok; v, _, ok = q.PopInOrder(now, 8) {
		got = append(got, v.name)
	}
	if want := "t0 t1 t2 t3 a1 t4 t5 t6 b2 a3"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestNothingIsLost pushes, pops and takes random values, and checks that no value is lost.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		q := queue()
		var in []string
		remove := func(v value) {
			i := slices.Index(in, v.name)
			if i < 0 {
				t.Fatalf("%s was not in the queue", v.name)
			}
			in = slices.Delete(in, i, i+1)
		}
		for i := range 500 {
			now := begin.Add(time.Duration(i) * time.Millisecond)
			switch random.IntN(6) {
			case 0, 1, 2:
				v := value{name: string(rune('a'+random.IntN(4))) + strings.Repeat("x", i)}
				if random.IntN(3) == 0 {
					v.due = now.Add(time.Duration(random.IntN(50)) * time.Millisecond)
				}
				v.number = uint64(i - random.IntN(2)*random.IntN(i+1))
				in = append(in, v.name)
				q.Push(v)
			case 3, 4:
				if random.IntN(3) == 0 {
					if v, _, ok := q.PopInOrder(now, uint64(i)); ok {
						remove(v)
					}
				} else if v, _, ok := q.Pop(now, []string{"a", "b"}[:random.IntN(3)], random.IntN(2) == 0); ok {
					remove(v)
				}
			case 5:
				if random.IntN(10) == 0 {
					for _, v := range q.Take(func(value) bool { return random.IntN(2) == 0 }) {
						remove(v)
					}
				}
			}
			var all []string
			for v := range q.All {
				all = append(all, v.name)
			}
			slices.Sort(all)
			if !slices.Equal(all, slices.Sorted(slices.Values(in))) || q.Fresh()+q.Timed() != len(in) {
				t.Fatalf("seed %d: queue has %v, want %v", seed, all, in)
			}
		}
	}
}
