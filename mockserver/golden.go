package mockserver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/baseline"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Golden configures the format of a golden file, which [View.Golden] compares with the
// received calls.
type Golden struct {
	// Update writes the file instead of comparing. Tests usually set it from a flag:
	//
	//	var update = flag.Bool("update", false, "write the golden files")
	Update bool
	// KeepIDs keeps messageIds and anonymousIds. By default each messageId is
	// replaced with <messageId>, and anonymousIds with <anonymousId 1>, <anonymousId 2>
	// and so on; equal IDs get equal numbers.
	KeepIDs bool
	// KeepTimes keeps the times that the collector and the sender add to a call.
	// By default they are replaced with <time>.
	KeepTimes bool
	// KeepOrder keeps the order of arrival. By default calls are sorted, because
	// concurrent requests may arrive in any order.
	KeepOrder bool
	// Without lists paths of fields to leave out, such as context.library.version.
	// A path through an array applies to all its elements.
	Without []string
}

// Golden compares the received calls that every match selects with a golden file. It
// fails the test if they differ, and lists the differences, or if the file does not
// exist. Like ExpectNone, it does not wait.
//
// Golden compares all values, except values that g replaces or omits. The file may contain the
// wildcards of baselines, such as <any>. New tests should use [View.Baseline], which recognizes values
// that differ in each run.
func (v View) Golden(t TB, file string, g Golden, match ...Match) {
	t.Helper()
	if err := v.golden(file, g, match); err != nil {
		t.Fatalf("mockserver: golden file: %v", err)
	}
}

func (v View) golden(file string, g Golden, match []Match) error {
	var got []goldenCall
	for _, call := range v.Calls(match...) {
		var c goldenCall
		if err := text.ParseJSON(call.Body, &c); err != nil {
			return fmt.Errorf("call %s is not JSON: %w", call.ID, err)
		}
		g.simplify(c)
		got = append(got, c)
	}
	if g.Update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, g.encode(got), 0o644)
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist: run the test once with Golden.Update", file)
	}
	if err != nil {
		return err
	}
	want, err := decodeGolden(content)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if differences := g.compare(got, want); differences != "" {
		return fmt.Errorf("%s: %s\n\nto accept the differences, run the test once with Golden.Update", file, differences)
	}
	return nil
}

// A goldenCall is a call in the format of a golden file.
type goldenCall = map[string]any

// simplify removes fields and replaces times.
func (g Golden) simplify(c goldenCall) {
	for _, path := range g.Without {
		remove(c, strings.Split(path, "."))
	}
	for _, f := range []fields.Field{fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt} {
		if _, ok := c[fields.Names[f]]; ok && !g.KeepTimes {
			c[fields.Names[f]] = "<time>"
		}
	}
}

// remove deletes the field at a path.
func remove(from any, path []string) {
	switch from := from.(type) {
	case []any:
		for _, element := range from {
			remove(element, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(from, path[0])
			return
		}
		remove(from[path[0]], path[1:])
	}
}

// compare describes the differences between the received calls and a golden file. It returns "" if they
// are equal.
func (g Golden) compare(got, want []goldenCall) string {
	report := baseline.Compare(baseline.Exact(g.visitors(got), false), baseline.Exact(g.visitors(want), false))
	if !report.OK {
		return report.Text()
	}
	if !g.KeepOrder {
		return ""
	}
	inOrder := func(list []goldenCall) *baseline.File { return baseline.Exact([][]goldenCall{g.number(list)}, true) }
	report = baseline.Compare(inOrder(got), inOrder(want))
	if report.OK {
		return ""
	}
	lines := []string{"the same calls arrived in another order", ""}
	for _, d := range report.Differences[:min(len(report.Differences), maxListed)] {
		lines = append(lines, "! "+d.Call)
	}
	return strings.Join(lines, "\n")
}

// visitors groups calls by anonymousId, and removes the IDs. With KeepIDs, it returns one group
// with the IDs.
func (g Golden) visitors(list []goldenCall) (groups [][]goldenCall) {
	index := map[string]int{}
	for i, c := range g.replaceIDs(list, func(string) string { return "<anonymousId>" }) {
		visitor := ""
		if !g.KeepIDs {
			visitor = visitorOf(list[i])
		}
		at, known := index[visitor]
		if !known {
			at = len(groups)
			index[visitor], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], c)
	}
	return groups
}

// visitorOf returns the anonymousId of a call, or "".
func visitorOf(c goldenCall) string {
	id, _ := c[fields.Names[fields.AnonymousID]].(string)
	return id
}

// number replaces the IDs of calls. It numbers anonymousIds in order of appearance.
func (g Golden) number(list []goldenCall) []goldenCall {
	names := map[string]string{}
	return g.replaceIDs(list, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("<anonymousId %d>", len(names)+1)
		}
		return names[id]
	})
}

// replaceIDs returns copies of calls. It replaces each anonymousId with the result of name, or removes
// it if name is nil. messageIds are not numbered, because an additional call would change all later
// numbers.
func (g Golden) replaceIDs(list []goldenCall, name func(id string) string) []goldenCall {
	if g.KeepIDs {
		return list
	}
	replaced := make([]goldenCall, len(list))
	for i, c := range list {
		replaced[i] = maps.Clone(c)
		if _, ok := c[fields.Names[fields.MessageID]]; ok {
			replaced[i][fields.Names[fields.MessageID]] = "<messageId>"
		}
		if id := visitorOf(c); id != "" && name != nil {
			replaced[i][fields.Names[fields.AnonymousID]] = name(id)
		} else {
			delete(replaced[i], fields.Names[fields.AnonymousID])
		}
	}
	return replaced
}

// encode writes calls as an indented JSON array with sorted keys.
func (g Golden) encode(list []goldenCall) []byte {
	if !g.KeepOrder {
		list = g.sort(list)
	}
	return append(text.JSON(append([]goldenCall{}, g.number(list)...), "  "), '\n')
}

// sort sorts calls by their content, equal calls by all calls of their visitors, and equal calls of
// equal visitors by visitor. The sorted calls differ between runs only in their IDs.
func (g Golden) sort(list []goldenCall) []goldenCall {
	type keyed struct {
		goldenCall
		key, visitor string
	}
	sorted, visits := make([]keyed, len(list)), map[string][]string{}
	for i, c := range g.replaceIDs(list, nil) {
		sorted[i] = keyed{list[i], string(text.JSON(c, "")), visitorOf(list[i])}
		visits[sorted[i].visitor] = append(visits[sorted[i].visitor], sorted[i].key)
	}
	contents := map[string]string{}
	for visitor, keys := range visits {
		slices.Sort(keys)
		contents[visitor] = strings.Join(keys, "\n")
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(contents[a.visitor], contents[b.visitor]), cmp.Compare(a.visitor, b.visitor))
	})
	calls := make([]goldenCall, len(list))
	for i, s := range sorted {
		calls[i] = s.goldenCall
	}
	return calls
}

func decodeGolden(content []byte) (list []goldenCall, err error) {
	v, err := jsondiff.Decode(content)
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	array, ok := v.([]any)
	if !ok {
		return nil, errors.New("not an array of calls")
	}
	for i := range array {
		call, ok := array[i].(goldenCall)
		if !ok {
			return nil, fmt.Errorf("element %d is not a call", i)
		}
		list = append(list, call)
	}
	return list, nil
}
