package mockserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/editdistance"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxDifferences is how many differences are told one by one.
const maxDifferences = 20

// jsonDiff tells how two JSON values differ, a line for each place. With subset,
// objects in got may have members that those in want do not.
type jsonDiff struct {
	subset   bool
	lines    []string
	more     int // differences beyond
	distance int // how far apart the values are that differ, in bytes to edit
}

// differences returns how got differs from want, values that decodeJSON has returned;
// nothing where they say the same. The order of members does not matter, nor how a
// number is written.
func differences(got, want any, subset bool) *jsonDiff {
	d := &jsonDiff{subset: subset}
	d.compare("", got, want)
	if d.more > 0 {
		d.lines = append(d.lines, "and "+text.Plural(d.more, "more difference", "more differences"))
	}
	return d
}

// decodeJSON decodes one value, in which numbers keep their digits.
func decodeJSON(text []byte) (v any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	end := decoder.InputOffset()
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the value, at byte %d", end)
	}
	return v, nil
}

func (d *jsonDiff) add(path, format string, args ...any) {
	if len(d.lines) == maxDifferences {
		d.more++
		return
	}
	if path == "" {
		path = "the whole"
	}
	d.lines = append(d.lines, strings.TrimPrefix(path, ".")+" "+fmt.Sprintf(format, args...))
}

func (d *jsonDiff) compare(path string, got, want any) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			d.compareObjects(path, got, want)
			return
		}
	case []any:
		if got, ok := got.([]any); ok {
			d.compareArrays(path, got, want)
			return
		}
	case json.Number:
		if got, ok := got.(json.Number); ok && sameNumber(got, want) {
			return
		}
	default:
		if got == want {
			return
		}
	}
	gotText, wantText := jsonText(got, maxShown), jsonText(want, maxShown)
	d.distance += distance(gotText, wantText)
	d.add(path, "is %s, want %s", gotText, wantText)
}

// distance is how many bytes must be edited to turn one text into another, judged by
// their first hundred.
func distance(a, b string) int { return editdistance.Of(a[:min(len(a), 100)], b[:min(len(b), 100)]) }

func (d *jsonDiff) compareObjects(path string, got, want map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[key]; ok {
			d.compare(join(path, key), value, want[key])
		} else {
			d.add(join(path, key), "is missing, want %s", jsonText(want[key], maxShown))
		}
	}
	if d.subset {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			d.add(join(path, key), "is %s, want none", jsonText(got[key], maxShown))
		}
	}
}

func (d *jsonDiff) compareArrays(path string, got, want []any) {
	for i := range min(len(got), len(want)) {
		d.compare(fmt.Sprintf("%s[%d]", path, i), got[i], want[i])
	}
	for i := len(want); i < len(got); i++ {
		d.add(fmt.Sprintf("%s[%d]", path, i), "is %s, want none", jsonText(got[i], maxShown))
	}
	for i := len(got); i < len(want); i++ {
		d.add(fmt.Sprintf("%s[%d]", path, i), "is missing, want %s", jsonText(want[i], maxShown))
	}
}

// join appends a key to a path: properties.plan, or traits["first name"].
func join(path, key string) string {
	plain := key != ""
	for _, r := range key {
		plain = plain && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	if plain {
		return path + "." + key
	}
	return path + "[" + strconv.Quote(key) + "]"
}

// sameNumber reports whether two numbers are the same, however they are written.
// Integers that a float64 cannot tell apart are not.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	if isInteger(a) && isInteger(b) {
		return false
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

func isInteger(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") }

const (
	maxShown     = 200  // of a value, in bytes
	maxBodyShown = 2000 // of a call, in bytes
)

// jsonText returns a value as JSON, or its first bytes.
func jsonText(v any, most int) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // it was decoded
	return text.CutBytes(most, strings.TrimSuffix(b.String(), "\n"))
}
