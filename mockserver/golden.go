package mockserver

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
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

// A goldenCall is a call in the format of a golden file.
type goldenCall map[string]any

// text returns a string field, or "".
func (c goldenCall) text(f fields.Field) string {
	s, _ := c[fields.Names[f]].(string)
	return s
}

// list converts calls to the format of a golden file and sorts them. It does not replace
// IDs.
func (g Golden) list(calls []tracking.Call) ([]goldenCall, error) {
	list := make([]goldenCall, len(calls))
	for i := range calls {
		v, err := jsondiff.Decode(calls[i].Body)
		if err != nil {
			return nil, fmt.Errorf("mockserver: call %s is not JSON: %w", calls[i].ID, err)
		}
		for _, path := range g.Without {
			remove(v, strings.Split(path, "."))
		}
		list[i], _ = v.(map[string]any)
		g.replaceTimes(list[i])
	}
	if g.KeepOrder {
		return list, nil
	}
	keys := g.keys(list)
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	sorted := make([]goldenCall, len(list))
	for to, from := range order {
		sorted[to] = list[from]
	}
	return sorted, nil
}

// encode writes calls as an indented JSON array with sorted keys.
func (g Golden) encode(list []goldenCall) []byte {
	if !g.KeepIDs {
		hideIDs(list)
		numberVisitors(list)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(list) // cannot fail: the value was decoded from JSON
	return b.Bytes()
}

func decodeGolden(text []byte) (list []goldenCall, err error) {
	v, err := jsondiff.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	array, ok := v.([]any)
	if !ok {
		return nil, errors.New("not an array of calls")
	}
	for i := range array {
		call, ok := array[i].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("element %d is not a call", i)
		}
		list = append(list, call)
	}
	return list, nil
}

// keys returns a sort key for each call. The key is the same in every run: the call's text
// without IDs, followed by the key of its visitor, so that equal calls are sorted by visitor.
func (g Golden) keys(list []goldenCall) []string {
	keys := make([]string, len(list))
	for i, c := range list {
		text, _ := json.Marshal(g.comparable(c))
		keys[i] = string(text)
	}
	if g.KeepIDs {
		return keys
	}
	visitors := visitorsOf(list, keys)
	for i, c := range list {
		keys[i] += visitors[c.text(fields.AnonymousID)]
	}
	return keys
}

// visitorsOf maps each anonymousId to a checksum of its calls, and a number that
// distinguishes equal checksums.
func visitorsOf(list []goldenCall, texts []string) map[string]string {
	theirs := map[string][]string{}
	for i, c := range list {
		id := c.text(fields.AnonymousID)
		theirs[id] = append(theirs[id], texts[i])
	}
	visitors, alike := map[string]string{"": ""}, map[string]int{}
	for _, c := range list {
		id := c.text(fields.AnonymousID)
		if _, known := visitors[id]; known {
			continue
		}
		slices.Sort(theirs[id])
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(theirs[id], "\n"))))
		visitors[id] = fmt.Sprint(sum, " ", alike[sum])
		alike[sum]++
	}
	return visitors
}

// comparable returns a copy of a call without the IDs that differ between runs.
func (g Golden) comparable(c goldenCall) goldenCall {
	if g.KeepIDs {
		return c
	}
	c = maps.Clone(c)
	delete(c, fields.Names[fields.MessageID])
	delete(c, fields.Names[fields.AnonymousID])
	return c
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

func (g Golden) replaceTimes(c goldenCall) {
	if g.KeepTimes {
		return
	}
	for _, f := range []fields.Field{fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt} {
		if _, ok := c[fields.Names[f]]; ok {
			c[fields.Names[f]] = "<time>"
		}
	}
}

// hideIDs replaces messageIds. They are not numbered, because an additional call would
// change all later numbers.
func hideIDs(list []goldenCall) {
	for _, c := range list {
		if c.text(fields.MessageID) != "" {
			c[fields.Names[fields.MessageID]] = "<messageId>"
		}
	}
}

// numberVisitors numbers anonymousIds in order of appearance.
func numberVisitors(list []goldenCall) {
	names := map[string]string{}
	for _, c := range list {
		id := c.text(fields.AnonymousID)
		if id == "" {
			continue
		}
		if names[id] == "" {
			names[id] = visitorName(len(names) + 1)
		}
		c[fields.Names[fields.AnonymousID]] = names[id]
	}
}

func visitorName(number int) string { return fmt.Sprintf("<anonymousId %d>", number) }
