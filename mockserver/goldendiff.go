package mockserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// diff returns the differences between the received calls and a golden file as lines, or
// nil if there are none. It replaces the IDs in got and want.
func (g Golden) diff(got, want []goldenCall) (lines []string) {
	pairs := g.pair(got, want)
	if !g.KeepIDs {
		nameVisitors(pairs, got, want)
		hideIDs(got)
		hideIDs(want)
	}
	if len(got) != len(want) {
		lines = append(lines, fmt.Sprintf("received %s, want %d", text.Plural(len(got), "call", "calls"), len(want)))
	}
	latest, paired := -1, map[int]bool{}
	for i, at := range pairs {
		if at < 0 {
			lines = append(lines, "missing: "+g.summary(want[i]))
			continue
		}
		paired[at] = true
		if g.KeepOrder && at < latest {
			lines = append(lines, "arrived out of order: "+g.summary(want[i]))
		}
		latest = max(latest, at)
		if why := jsondiff.Compare(map[string]any(got[at]), map[string]any(want[i]), false).Lines; len(why) > 0 {
			lines = append(lines, "differs: "+g.summary(want[i])+"\n    "+strings.Join(why, "\n    "))
		}
	}
	for i := range got {
		if !paired[i] {
			lines = append(lines, "unexpected: "+g.summary(got[i])+"\n    "+jsondiff.Text(got[i], maxBodyShown))
		}
	}
	if more := len(lines) - maxListed; more > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// pair returns, for each call of the file, the index of the matching received call: an
// equal call if there is one, otherwise the most similar unmatched call of the same kind.
// Without either, the index is -1.
func (g Golden) pair(got, want []goldenCall) []int {
	same, left := map[string][]int{}, map[string][]int{} // indices by key, and by kind
	for i, key := range g.keys(got) {
		same[key] = append(same[key], i)
	}
	pairs, paired := make([]int, len(want)), map[int]bool{}
	for i, key := range g.keys(want) {
		pairs[i] = -1
		if at := same[key]; len(at) > 0 {
			pairs[i], same[key] = at[0], at[1:]
			paired[at[0]] = true
		}
	}
	for i := range got {
		if !paired[i] {
			left[got[i].kind()] = append(left[got[i].kind()], i)
		}
	}
	for i := range want {
		if pairs[i] >= 0 {
			continue
		}
		kind := want[i].kind()
		if nearest := g.nearest(want[i], got, left[kind]); nearest >= 0 {
			pairs[i] = left[kind][nearest]
			left[kind] = slices.Delete(left[kind], nearest, nearest+1)
		}
	}
	return pairs
}

// maxCompared limits the number of comparisons per call.
const maxCompared = 50

// nearest returns the index of the call that is most similar to want, or -1.
func (g Golden) nearest(want goldenCall, got []goldenCall, of []int) int {
	nearest := -1
	var least *jsondiff.Diff
	for i, at := range of[:min(len(of), maxCompared)] {
		d := jsondiff.Compare(map[string]any(g.comparable(got[at])), map[string]any(g.comparable(want)), false)
		if nearest < 0 || cmp.Or(cmp.Compare(len(d.Lines), len(least.Lines)), cmp.Compare(d.Distance, least.Distance)) < 0 {
			nearest, least = i, d
		}
	}
	return nearest
}

// nameVisitors gives anonymousIds of matched calls the names from the file, and the
// other anonymousIds new names.
func nameVisitors(pairs []int, got, want []goldenCall) {
	names, taken := map[string]string{}, map[string]bool{"": true}
	for i, at := range pairs {
		if at < 0 {
			continue
		}
		id, name := got[at].text(fields.AnonymousID), want[i].text(fields.AnonymousID)
		if names[id] == "" && !taken[name] {
			names[id], taken[name] = name, true
		}
	}
	for _, c := range want {
		taken[c.text(fields.AnonymousID)] = true
	}
	next := 1
	for _, c := range got {
		id := c.text(fields.AnonymousID)
		if id == "" {
			continue
		}
		for names[id] == "" {
			if name := visitorName(next); !taken[name] {
				names[id] = name
			}
			next++
		}
		c[fields.Names[fields.AnonymousID]] = names[id]
	}
}

// kind returns a key that is equal for calls that may match.
func (c goldenCall) kind() string {
	return c.text(fields.Type) + " " + c.text(fields.TypeNamed(c.text(fields.Type)).Title)
}

// summary describes a call in one line.
func (g Golden) summary(c goldenCall) string {
	var call tracking.Call
	for f := range fields.Names {
		if text := fields.TextOf(&call, fields.Field(f)); text != nil && (g.KeepIDs || fields.Field(f) != fields.MessageID) {
			*text = c.text(fields.Field(f))
		}
	}
	return summary(&call)
}

// maxListed limits the number of calls in an error.
const maxListed = 20
