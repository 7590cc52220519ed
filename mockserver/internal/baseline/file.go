package baseline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// MaxCalls is the maximum number of calls in a file.
	MaxCalls = 5_000
	// MaxBytes is the maximum size of a file.
	MaxBytes = 64 << 20
	// version is the version of the format.
	version = 1
)

// A File is the content of a baseline file.
type File struct {
	Version int    `json:"version"`
	Users   []user `json:"users"`
}

// A user is the list of calls of one user.
type user struct {
	Order string `json:"order,omitempty"` // anyOrder, or empty if the order of the calls matters
	Calls []call `json:"calls"`
}

const anyOrder = "any"

// A call is a normalized call: an object decoded with jsondiff.Decode.
type call map[string]any

// omitted contains the fields of a call that are not recorded.
var omitted = []fields.Field{fields.MessageID, fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt, fields.WriteKey}

// text returns the content of a string, or the digits of a number.
func (c call) text(f fields.Field) string {
	switch v := c[fields.Names[f]].(type) {
	case string:
		return v
	case json.Number:
		return string(v)
	}
	return ""
}

// time returns the time of the call by the sender's clock.
func (c call) time() time.Time {
	t, err := fields.ParseTime(cmp.Or(c.text(fields.OriginalTimestamp), c.text(fields.Timestamp)))
	if err != nil {
		return time.Time{}
	}
	return t
}

// title names the call by its type and event. Without a type, it is "call".
func (c call) title() string {
	typ := c.text(fields.Type)
	title := cmp.Or(text.CutBytes(text.MaxRepeated, strings.Trim(fmt.Sprintf("%q", typ), `"`)), "call")
	if f := fields.TypeNamed(typ).Title; fields.Names[f] != "" && c.text(f) != "" { // other types have no Title
		title += " " + text.Quote(text.MaxRepeated, c.text(f))
	}
	return title
}

// key returns the call as JSON. Calls with equal keys are equal.
func (c call) key() string {
	b, _ := json.Marshal(c) // cannot fail: the call was decoded from JSON
	return string(b)
}

// Record returns the file for the bodies of calls, which are in order of arrival.
func Record(bodies []json.RawMessage) (*File, error) {
	if len(bodies) > MaxCalls {
		return nil, fmt.Errorf("a baseline contains at most %s calls, and the run has at least %s", text.GroupDigits(MaxCalls), text.GroupDigits(len(bodies)))
	}
	f := newFile()
	byID := links{}
	calls := make([]call, len(bodies))
	for i, body := range bodies {
		v, err := jsondiff.Decode(body)
		c, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, fmt.Errorf("call %d is not a JSON object", i+1)
		}
		calls[i] = c
		byID.add(calls[i])
	}
	slices.SortStableFunc(calls, func(a, b call) int { return a.time().Compare(b.time()) })
	position := map[string]int{} // index in f.Users, by the first ID of the user
	for _, c := range calls {
		id := byID.add(c)
		if _, known := position[id]; !known {
			position[id] = len(f.Users)
			f.Users = append(f.Users, user{})
		}
		u := &f.Users[position[id]]
		u.Calls = append(u.Calls, c)
	}
	for _, u := range f.Users {
		u.normalize()
	}
	f.sort()
	return f, nil
}

// Exact returns a file for lists of decoded calls, one per user. Unlike Record, it keeps all values. If
// ordered is false, the order of a user's calls does not matter.
func Exact(users [][]map[string]any, ordered bool) *File {
	f := newFile()
	for _, calls := range users {
		if len(calls) == 0 {
			continue
		}
		u := user{}
		if !ordered {
			u.Order = anyOrder
		}
		for _, c := range calls {
			u.Calls = append(u.Calls, c)
		}
		u.sort()
		f.Users = append(f.Users, u)
	}
	f.sort()
	return f
}

// ids yields the names and the values of the fields that identify the user.
func (c call) ids() iter.Seq2[string, string] {
	return func(yield func(name, id string) bool) {
		for _, f := range []fields.Field{fields.UserID, fields.AnonymousID, fields.PreviousID} {
			if id := c.text(f); id != "" && !yield(fields.Names[f], id) {
				return
			}
		}
	}
}

// links maps each ID to another ID of the same user, except the first one.
type links map[string]string

// add links the IDs of a call, and returns one of them.
func (l links) add(c call) (first string) {
	for _, id := range c.ids() {
		if id = l.first(id); first == "" {
			first = id
		} else if id != first {
			l[id] = first
		}
	}
	return first
}

// first returns the first ID of the user with an ID.
func (l links) first(id string) string {
	first := id
	for l[first] != "" {
		first = l[first]
	}
	for id != first { // shortens the path for later calls
		id, l[id] = l[id], first
	}
	return first
}

// sort sorts the users by the titles of their calls, then by their content. Most changes of
// properties therefore keep the position of a user.
func (f *File) sort() {
	keys := make(map[*call]string, len(f.Users)) // by the first call, because sorting moves users
	for i := range f.Users {
		u := &f.Users[i]
		keys[&u.Calls[0]] = u.titles() + "\n" + u.key()
	}
	slices.SortFunc(f.Users, func(a, b user) int { return cmp.Compare(keys[&a.Calls[0]], keys[&b.Calls[0]]) })
}

// sort sorts the calls of a user whose order does not matter.
func (u *user) sort() {
	if u.Order == anyOrder {
		slices.SortStableFunc(u.Calls, func(a, b call) int {
			return cmp.Or(cmp.Compare(a.title(), b.title()), cmp.Compare(a.key(), b.key()))
		})
	}
}

func (u *user) titles() string { return u.join(call.title) }
func (u *user) key() string    { return u.join(call.key) }

func (u *user) join(f func(call) string) string {
	parts := make([]string, len(u.Calls))
	for i, c := range u.Calls {
		parts[i] = f(c)
	}
	return strings.Join(parts, "\n")
}

func newFile() *File { return &File{Version: version, Users: []user{}} }

// Calls returns the number of calls.
func (f *File) Calls() (n int) {
	for _, u := range f.Users {
		n += len(u.Calls)
	}
	return n
}

// Encode returns the file as indented JSON. Equal files have equal bytes.
func (f *File) Encode() []byte {
	return append(text.JSON(f, "  "), '\n')
}

// Parse reads a file.
func Parse(data []byte) (*File, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("larger than %d MiB", MaxBytes>>20)
	}
	data, err := textfile.Decode(data)
	if err != nil {
		return nil, err
	}
	f := &File{}
	switch err := text.ParseJSON(data, f); {
	case err != nil:
		return nil, fmt.Errorf("not a baseline: %s", text.CutBytes(text.MaxRepeated, strings.TrimPrefix(err.Error(), "json: ")))
	case f.Version != version:
		return nil, fmt.Errorf("not a baseline of version %d: version is %d", version, f.Version)
	case f.Calls() > MaxCalls:
		return nil, fmt.Errorf("contains more than %s calls", text.GroupDigits(MaxCalls))
	}
	for i, u := range f.Users {
		if len(u.Calls) == 0 || slices.ContainsFunc(u.Calls, func(c call) bool { return c == nil }) {
			return nil, fmt.Errorf("users[%d].calls must be a list of at least one call, without null", i)
		}
		if u.Order != "" && u.Order != anyOrder {
			return nil, fmt.Errorf("users[%d].order is %s: use %q, or remove it", i, text.Quote(text.MaxRepeated, u.Order), anyOrder)
		}
	}
	return f, nil
}

// Load reads the file at a path.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Save writes a run to the file at a path. If the file exists, it merges them; see [Merge].
func Save(path string, run *File, widen bool) error {
	old, err := Load(path)
	switch {
	case err == nil:
		if run, err = Merge(run, old, widen); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	case widen:
		return fmt.Errorf("%w: record a run first, without widen", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, run.Encode(), 0o644)
}
