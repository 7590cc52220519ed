package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxDepth is the maximum number of nested objects and arrays in a value. Collectors accept
	// 1,000 levels, and the batch and the call use some of them.
	MaxDepth = 990
	// MaxText limits the JSON of a value. It is much larger than the size limit of a call. It
	// prevents a huge value from using all memory.
	MaxText = 16 << 20
)

var (
	// ErrTooDeep is the error for a value with more than MaxDepth levels.
	ErrTooDeep = fmt.Errorf("nested deeper than %d levels, perhaps a cycle", MaxDepth)

	// ErrTooLarge is the error for a value of more than MaxText bytes.
	ErrTooLarge = fmt.Errorf("more than %d MB of JSON", MaxText>>20)
)

// ValueError reports a value that cannot be encoded.
type ValueError struct {
	Err  error    // the problem of the value
	path []string // the steps of the path to the value, innermost first
}

// Below adds step to the start of the path of err. step is a result of Segment, or an index such
// as "[3]".
func Below(step string, err error) error {
	inner, ok := err.(*ValueError) //nolint:errorlint // an error that a MarshalJSON wraps has the path of another map
	if !ok {
		return &ValueError{Err: err, path: []string{step}}
	}
	inner.path = append(inner.path, step)
	return inner
}

// Path returns the path of the value, such as "properties.cart.total". It omits the middle of a
// very long path, for example in a cycle.
func (e *ValueError) Path() string {
	const ends, longest = 8, MaxRepeated / 2
	var b strings.Builder
	for i := len(e.path) - 1; i >= 0; i-- {
		if depth := len(e.path) - 1 - i; depth == ends && i >= ends {
			b.WriteString("…")
			i = ends - 1
		}
		b.WriteString(e.path[i])
	}
	path := strings.TrimPrefix(b.String(), ".")
	if len(path) <= longest {
		return path
	}
	end := len(path) - longest/2
	for !utf8.RuneStart(path[end]) {
		end++
	}
	return Clip(path, longest/2) + path[end:]
}

// Error returns the path and the problem of the value, such as
// "properties.cart.total: json: unsupported value: NaN".
func (e *ValueError) Error() string { return Clip(e.Path()+": "+e.Err.Error(), MaxRepeated) }

// Unwrap returns Err.
func (e *ValueError) Unwrap() error { return e.Err }

// Segment returns key as a step of a path.
func Segment(key string) string {
	const longest = 64
	key = Clip(key, longest)
	for _, r := range key {
		if r == '.' || r == '[' || !strconv.IsPrint(r) {
			return "[" + strconv.Quote(key) + "]"
		}
	}
	return "." + key
}

// MaxRepeated is the maximum number of input bytes that an error contains.
const MaxRepeated = 200

// Clip returns the first most bytes of text, or fewer to keep the result valid UTF-8.
func Clip(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	for n := range min(most, utf8.UTFMax) { // do not split a character
		if utf8.RuneStart(text[most-n]) {
			most -= n
			break
		}
	}
	return strings.ToValidUTF8(text[:most], string(utf8.RuneError)) + "…"
}
