package baseline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
)

const (
	maxComparisons = 200_000 // comparisons of two calls, which take microseconds each
	maxOverlapping = 300     // users that are matched by their common calls
)

// A keyed is a call with its key and its title.
type keyed struct {
	call
	key, title string
}

// A candidate is a user to match.
type candidate struct {
	calls        []keyed
	order        string   // see user.Order
	keys, titles []string // of the calls, sorted
	id           string   // first ID without placeholders; may be empty
}

func candidates(f *File) []candidate {
	list := make([]candidate, len(f.Users))
	for i, u := range f.Users {
		c := &list[i]
		c.order = u.Order
		for _, one := range u.Calls {
			k := keyed{one, one.key(), one.title()}
			c.calls, c.keys, c.titles = append(c.calls, k), append(c.keys, k.key), append(c.titles, k.title)
		}
		if _, id := firstID(c.calls); !strings.Contains(id, "<") {
			c.id = id
		}
		slices.Sort(c.keys)
		slices.Sort(c.titles)
	}
	return list
}

// firstID returns the field and the value of the first ID of a user. It prefers an ID without a
// placeholder.
func firstID(calls []keyed) (field, id string) {
	for _, c := range calls {
		for name, value := range c.ids() {
			if !strings.Contains(value, "<") {
				return name, value
			}
			if id == "" {
				field, id = name, value
			}
		}
	}
	return field, id
}

// A matching contains the index in a file of each element of a run, and the reverse. The index of
// an element without a match is -1.
type matching struct{ wantOf, gotOf []int }

func newMatching(got, want int) matching {
	return matching{slices.Repeat([]int{-1}, got), slices.Repeat([]int{-1}, want)}
}

func (x *matching) add(i, j int) { x.wantOf[i], x.gotOf[j] = j, i }

// complete matches each remaining element of the file with the first remaining element of the run
// that is equal and has the same group. Elements without a group do not match.
func (x *matching) complete(gotGroup, wantGroup func(int) string, equal func(i, j int) bool) {
	groups := map[string][]int{}
	for i := range x.wantOf {
		if x.wantOf[i] < 0 {
			group := gotGroup(i)
			groups[group] = append(groups[group], i)
		}
	}
	delete(groups, "")
	for j := range x.gotOf {
		if x.gotOf[j] >= 0 {
			continue
		}
		group := wantGroup(j)
		if n := slices.IndexFunc(groups[group], func(i int) bool { return equal(i, j) }); n >= 0 {
			x.add(groups[group][n], j)
			groups[group] = slices.Delete(groups[group], n, n+1)
		}
	}
}

// always returns true. It compares elements of groups that contain only equal elements.
func always(int, int) bool { return true }

// A matcher matches the users and calls of a run with a file.
type matcher struct{ comparisons int }

// users matches the users of a run with the users of a file.
func (m *matcher) users(got, want []candidate) matching {
	x := newMatching(len(got), len(want))
	complete := func(group func(*candidate) string, equal func(i, j int) bool) {
		x.complete(func(i int) string { return group(&got[i]) }, func(j int) string { return group(&want[j]) }, equal)
	}
	equal := func(i, j int) bool { return m.equalUsers(&got[i], &want[j]) }
	complete(func(c *candidate) string { return strings.Join(c.keys, "\n") }, equal)
	complete(func(c *candidate) string { return strings.Join(c.titles, "\n") }, equal)
	complete(func(c *candidate) string { return c.id }, always)
	x.overlapping(got, want)
	return x
}

// equalUsers reports whether two users with the same events have no differences.
func (m *matcher) equalUsers(got, want *candidate) bool {
	if want.order == anyOrder {
		x, _ := m.calls(got, want)
		for i, j := range x.wantOf {
			if !m.equal(&got.calls[i], &want.calls[j]) {
				return false
			}
		}
		return true
	}
	for i := range got.calls {
		if !m.equal(&got.calls[i], &want.calls[i]) {
			return false
		}
	}
	return true
}

// overlapping matches the remaining users with the most calls in common.
func (x *matching) overlapping(got, want []candidate) {
	type overlap struct{ got, want, titles, keys int }
	var all []overlap
	missing, checked := 0, 0
	for j := range x.gotOf {
		if x.gotOf[j] >= 0 || missing == maxOverlapping {
			continue
		}
		missing, checked = missing+1, 0
		for i := range x.wantOf {
			if x.wantOf[i] >= 0 || checked == maxOverlapping {
				continue
			}
			checked++
			g, w := &got[i], &want[j]
			if n := common(g.titles, w.titles); n > 0 {
				all = append(all, overlap{i, j, 1000 * n / (len(g.titles) + len(w.titles)), common(g.keys, w.keys)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b overlap) int {
		return cmp.Or(cmp.Compare(b.titles, a.titles), cmp.Compare(b.keys, a.keys))
	})
	for _, o := range all {
		if x.wantOf[o.got] < 0 && x.gotOf[o.want] < 0 {
			x.add(o.got, o.want)
		}
	}
}

// common returns the number of common elements of two sorted lists.
func common(a, b []string) (n int) {
	for len(a) > 0 && len(b) > 0 {
		order := strings.Compare(a[0], b[0])
		if order == 0 {
			n++
		}
		if order <= 0 {
			a = a[1:]
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return n
}

// equal reports whether a call matches a call in a file. Beyond the limit of comparisons, it
// reports whether they are identical.
func (m *matcher) equal(got, want *keyed) bool {
	if got.key == want.key || got.title != want.title || m.comparisons == maxComparisons {
		return got.key == want.key
	}
	m.comparisons++
	return len(differences(got.call, want.call)) == 0
}

// differences returns the differences of a call from a call in a file.
func differences(got, want call) []string {
	return jsondiff.CompareWords(map[string]any(got), map[string]any(want), wildcards).Lines
}

// calls matches the calls of a user: first equal calls in order, then other calls of the same event in
// order, then calls that moved. moved[i] reports whether call i of the run has moved.
func (m *matcher) calls(got, want *candidate) (x matching, moved []bool) {
	x = newMatching(len(got.calls), len(want.calls))
	if want.order != anyOrder {
		m.align(&x, got.calls, want.calls)
	}
	inOrder := slices.Clone(x.wantOf)
	key := func(list []keyed) func(int) string { return func(i int) string { return list[i].key } }
	title := func(list []keyed) func(int) string { return func(i int) string { return list[i].title } }
	x.complete(key(got.calls), key(want.calls), always)
	x.complete(title(got.calls), title(want.calls), func(i, j int) bool { return m.equal(&got.calls[i], &want.calls[j]) })
	x.complete(title(got.calls), title(want.calls), always)
	moved = make([]bool, len(x.wantOf))
	for i, j := range x.wantOf {
		moved[i] = want.order != anyOrder && j >= 0 && inOrder[i] < 0
	}
	return x, moved
}

// align matches calls in order: as many equal calls as possible, then as many calls with equal
// titles as possible.
func (m *matcher) align(x *matching, got, want []keyed) {
	start := 0
	for start < min(len(got), len(want)) && m.equal(&got[start], &want[start]) {
		x.add(start, start)
		start++
	}
	steps := m.steps(got[start:], want[start:])
	for i, j := start, start; i < len(got) && j < len(want); {
		switch steps[i-start][j-start] {
		case skipGot:
			i++
		case skipWant:
			j++
		default:
			x.add(i, j)
			i, j = i+1, j+1
		}
	}
}

// A step is a part of an alignment.
type step byte

const (
	skipWant step = iota
	skipGot
	matchBoth
)

// steps returns the best step at each position of an alignment.
func (m *matcher) steps(got, want []keyed) [][]step {
	weight := len(got) + len(want) + 1 // an equal call has more weight than all equal titles
	below := make([]int, len(want)+1)  // scores of the alignments that start at the next call of got
	steps := make([][]step, len(got))
	for i := len(got) - 1; i >= 0; i-- {
		scores := make([]int, len(want)+1)
		steps[i] = make([]step, len(want))
		for j := len(want) - 1; j >= 0; j-- {
			scores[j], steps[i][j] = scores[j+1], skipWant
			if below[j] > scores[j] {
				scores[j], steps[i][j] = below[j], skipGot
			}
			if got[i].title != want[j].title {
				continue
			}
			score := below[j+1] + 1
			if m.equal(&got[i], &want[j]) {
				score += weight
			}
			if score >= scores[j] {
				scores[j], steps[i][j] = score, matchBoth
			}
		}
		below = scores
	}
	return steps
}
