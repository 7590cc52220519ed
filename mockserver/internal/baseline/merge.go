package baseline

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
)

// Merge returns the file for a new run: the calls of the run, with the wildcards and the order of
// users of the old file. With widen, values and orders that differ become wildcards. This fails
// if the runs have different calls.
func Merge(got, old *File, widen bool) (*File, error) {
	m := &matcher{}
	g, w := candidates(got), candidates(old)
	x := m.users(g, w)
	merged, added := newFile(), newFile()
	sameCalls := true
	for j, i := range x.gotOf {
		if i < 0 {
			sameCalls = false
			continue
		}
		u, same := m.merge(&g[i], &w[j], widen)
		merged.Users = append(merged.Users, u)
		sameCalls = sameCalls && same
	}
	for i, j := range x.wantOf {
		if j < 0 {
			added.Users = append(added.Users, got.Users[i])
		}
	}
	if widen && (!sameCalls || len(added.Users) > 0) {
		return nil, fmt.Errorf("the runs have different calls, and wildcards replace only values:\n%s", Compare(got, old).Text())
	}
	added.sort()
	merged.Users = append(merged.Users, added.Users...)
	return merged, nil
}

// merge merges the calls of a user, and reports whether the user has the same events in the run and
// in the file.
func (m *matcher) merge(got, want *candidate, widen bool) (u user, sameCalls bool) {
	u.Order = want.order
	x, moved := m.calls(got, want)
	for i, j := range x.wantOf {
		c := map[string]any(got.calls[i].call)
		if j >= 0 {
			c, _ = mergeValue(c, map[string]any(want.calls[j].call), widen).(map[string]any)
		}
		u.Calls = append(u.Calls, c)
		if widen && moved[i] {
			u.Order = anyOrder
		}
	}
	u.sort()
	return u, !slices.Contains(x.wantOf, -1) && !slices.Contains(x.gotOf, -1)
}

// mergeValue returns the value of a run with the matching wildcards of a file. With widen, wildcards
// replace the values that differ.
func mergeValue(got, want any, widen bool) any {
	if w := wildcardOf(want); w != nil && w.Match(got, true) {
		return want
	}
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return mergeObjects(got, want, widen)
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			break
		}
		array := make([]any, len(got))
		for i := range got {
			array[i] = mergeValue(got[i], want[i], widen)
		}
		return array
	}
	typ := typeOf(got)
	switch {
	case !widen || len(jsondiff.Compare(got, want, false).Lines) == 0:
		return got
	case typ == typeOf(want) && wildcards["<"+typ+">"] != nil && wildcardOf(want) == nil:
		return "<" + typ + ">"
	}
	return "<any>"
}

func mergeObjects(got, want map[string]any, widen bool) any {
	object := maps.Clone(got)
	for key, value := range want {
		if got, ok := got[key]; ok {
			object[key] = mergeValue(got, value, widen)
		} else if w := wildcardOf(value); widen || w != nil && w.none {
			object[key] = "<optional>"
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok && widen {
			object[key] = "<optional>"
		}
	}
	return object
}
