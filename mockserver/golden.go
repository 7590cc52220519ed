package mockserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Golden says how calls are written to a file, to be held against those of
// later runs.
type Golden struct {
	// Update writes the file instead of comparing. Tests usually take it from a
	// flag of theirs:
	//
	//	var update = flag.Bool("update", false, "write the golden files")
	Update bool
	// KeepIDs keeps the messageIds and anonymousIds. Defaults to false: each is
	// replaced by <messageId 1>, <messageId 2> and so on, as they first come.
	KeepIDs bool
	// KeepTimes keeps the times that the collector and the sender put on a call.
	// Defaults to false: they are replaced by <time>.
	KeepTimes bool
	// KeepOrder keeps the order in which the calls came. Defaults to false: they
	// are sorted, since two requests may come in any order.
	KeepOrder bool
	// Without leaves out what differs for other reasons, by the path to it, such
	// as context.library.version.
	Without []string
}

// Golden holds the calls that came, and that every match picks, against a file
// of an earlier run. It ends the test if they differ, with the differences, or
// if there is no such file.
func (v View) Golden(t TB, file string, g Golden, match ...Match) {
	t.Helper()
	if err := v.golden(file, g, match); err != nil {
		t.Fatalf("%v", err)
	}
}

func (v View) golden(file string, g Golden, match []Match) error {
	got, err := g.encode(v.Calls(match...))
	if err != nil {
		return err
	}
	if g.Update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("mockserver: golden file: %w", err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			return fmt.Errorf("mockserver: golden file: %w", err)
		}
		return nil
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("mockserver: there is no golden file %s yet: run the test once with Golden.Update", file)
	}
	if err != nil {
		return fmt.Errorf("mockserver: golden file: %w", err)
	}
	differences, err := diffJSON(got, want, false)
	if err != nil {
		return fmt.Errorf("%w (golden file %s)", err, file)
	}
	if len(differences) == 0 {
		return nil
	}
	if g, w := count(got), count(want); g != w {
		differences = slices.Insert(differences, 0, fmt.Sprintf("%s came, want %d", plural(g, "call", "calls"), w))
	}
	return fmt.Errorf("mockserver: the calls differ from the golden file %s; if that is meant, run the test once with Golden.Update:\n  %s",
		file, strings.Join(differences, "\n  "))
}

// count returns how many elements a JSON array has.
func count(array []byte) int {
	var elements []json.RawMessage
	_ = json.Unmarshal(array, &elements)
	return len(elements)
}

// encode writes calls as an indented array, with the members of objects sorted.
func (g Golden) encode(calls []Call) ([]byte, error) {
	list := make([]any, len(calls))
	for i := range calls {
		v, err := decodeJSON(calls[i].Body)
		if err != nil {
			return nil, fmt.Errorf("mockserver: call %s is not JSON: %w", calls[i].ID, err)
		}
		object, _ := v.(map[string]any)
		for _, path := range g.Without {
			remove(object, strings.Split(path, "."))
		}
		g.replaceTimes(object)
		list[i] = object
	}
	if !g.KeepOrder {
		slices.SortStableFunc(list, g.compare)
	}
	g.replaceIDs(list)
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(list)
	return b.Bytes(), err
}

// compare orders calls by what does not differ from run to run.
func (g Golden) compare(a, b any) int {
	key := func(v any) string {
		object := map[string]any{}
		for name, value := range v.(map[string]any) {
			if g.KeepIDs || name != fieldNames[fieldMessageID] && name != fieldNames[fieldAnonymousID] {
				object[name] = value
			}
		}
		text, _ := json.Marshal(object)
		return string(text)
	}
	return cmp.Compare(key(a), key(b))
}

// remove takes out what a path leads to.
func remove(object map[string]any, path []string) {
	for len(path) > 1 && object != nil {
		object, _ = object[path[0]].(map[string]any)
		path = path[1:]
	}
	delete(object, path[0])
}

func (g Golden) replaceTimes(object map[string]any) {
	if g.KeepTimes {
		return
	}
	for _, f := range []field{fieldTimestamp, fieldOriginalTimestamp, fieldSentAt, fieldReceivedAt} {
		if _, ok := object[fieldNames[f]]; ok {
			object[fieldNames[f]] = "<time>"
		}
	}
}

func (g Golden) replaceIDs(list []any) {
	if g.KeepIDs {
		return
	}
	for _, f := range []field{fieldMessageID, fieldAnonymousID} {
		name, numbers := fieldNames[f], map[string]int{}
		for _, v := range list {
			object := v.(map[string]any)
			id, ok := object[name].(string)
			if !ok {
				continue
			}
			if numbers[id] == 0 {
				numbers[id] = len(numbers) + 1
			}
			object[name] = fmt.Sprintf("<%s %d>", name, numbers[id])
		}
	}
}
