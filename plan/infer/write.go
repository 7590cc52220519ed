package infer

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// WriteTo writes the plan as YAML. The plan does not depend on the order of the calls, and all
// calls match it. Comments in the plan contain statistics: the share of each type if there are
// several, how often optional properties occur, and the number of values of an enum. If there are
// no calls, the plan is empty and invalid.
func (x *Inference) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	o := &output{&b, x.config}
	fmt.Fprintf(&b, "# Inferred from %s. Review it before use: the calls may contain\n# mistakes, and other values may be valid.\n", callCount(x.calls))
	o.line(0, "plan: "+quote(x.config.Name), "")
	for _, callType := range []string{"track", "page", "screen"} {
		o.named(callType, x.entriesOf(callType))
	}
	for _, callType := range []string{"identify", "group"} {
		if e := x.entries[entryKey{callType, ""}]; e != nil {
			o.entry(0, callType, "traits", e)
		}
	}
	n, err := w.Write(b.Bytes())
	return int64(n), err
}

// entriesOf returns the entries of a call type, keyed by name.
func (x *Inference) entriesOf(callType string) map[string]*entry {
	of := map[string]*entry{}
	for key, e := range x.entries {
		if key.callType == callType {
			of[key.name] = e
		}
	}
	return of
}

// An output writes YAML.
type output struct {
	b      *bytes.Buffer
	config Config
}

// line writes a line with an optional comment.
func (o *output) line(indent int, text, comment string) {
	o.b.WriteString(strings.Repeat("  ", indent) + text)
	if comment != "" {
		o.b.WriteString(" # " + comment)
	}
	o.b.WriteByte('\n')
}

func (o *output) named(callType string, entries map[string]*entry) {
	if len(entries) == 0 {
		return
	}
	o.line(0, callType+":", "")
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		o.entry(1, quote(name), "properties", entries[name])
	}
}

// entry writes an entry. The default type of its schema is object.
func (o *output) entry(indent int, key, properties string, e *entry) {
	comment := callCount(e.calls)
	if key == `""` {
		comment += " with any other name"
	}
	o.line(indent, key+":", comment)
	if types := e.value.typeList(); len(types) > 1 || types[0] != "object" {
		o.line(indent+1, "type: "+list(types), o.shares(e.value))
	}
	o.object(indent+1, properties, e.value)
}

// object writes the keywords for objects.
func (o *output) object(indent int, properties string, v *value) {
	if v.types[object] == 0 || v.deep {
		return
	}
	if len(v.properties) > 0 {
		o.line(indent, properties+":", "")
		for _, key := range slices.Sorted(maps.Keys(v.properties)) {
			m := v.properties[key]
			required := m.count() == v.types[object]
			var comments []string
			if !required {
				comments = append(comments, "in "+share(m.count(), v.types[object]))
			}
			o.value(indent+1, key, m, required, comments...)
		}
	}
	switch {
	case v.mapping != nil:
		o.value(indent, "additionalProperties", v.mapping, false, fmt.Sprintf("more than %d names", o.config.MaxProperties))
	case v.open:
		o.line(indent, "additionalProperties: true", "too many properties to list")
	default:
		o.line(indent, "additionalProperties: false", "")
	}
}

// value writes the schema of a value, on one line if possible.
func (o *output) value(indent int, key string, v *value, required bool, comments ...string) {
	words := o.schema(v)
	if required {
		words = append(words, "required: true")
	}
	comment := strings.Join(append(comments, o.comments(v)...), "; ")
	nested := v.types[object] > 0 && !v.deep || v.types[array] > 0 && v.items != nil && !v.deep
	if !nested {
		o.line(indent, fmt.Sprintf("%s: {%s}", quote(key), strings.Join(words, ", ")), comment)
		return
	}
	o.line(indent, quote(key)+":", comment)
	for _, word := range words {
		o.line(indent+1, word, "")
	}
	o.object(indent+1, "properties", v)
	if v.items != nil && v.types[array] > 0 {
		o.value(indent+1, "items", v.items, false)
	}
}

// schema returns the keywords of a schema that can be written on one line.
func (o *output) schema(v *value) []string {
	types := v.typeList()
	if len(types) == 0 {
		return nil
	}
	words := []string{"type: " + list(types)}
	if values := o.enum(v); values != nil {
		return append(words, "enum: ["+strings.Join(values, ", ")+"]")
	}
	if format := v.format(); format != "" {
		words = append(words, "format: "+format)
	}
	return words
}

// enum returns the values of an enum as YAML, or nil if the property is not an enum.
func (o *output) enum(v *value) []string {
	n := v.types[stringType]
	if n == 0 || v.manyStrings || n+v.types[null] != v.count() || n < o.config.EnumRepeats*len(v.strings) {
		return nil
	}
	var values []string
	for _, s := range slices.Sorted(maps.Keys(v.strings)) {
		values = append(values, quote(s))
	}
	if v.types[null] > 0 {
		values = append(values, "null")
	}
	return values
}

// format returns the format of all strings. It returns "" if there are fewer than three strings.
func (v *value) format() string {
	if v.types[stringType] < 3 || len(v.formats) == 0 {
		return ""
	}
	return v.formats[0]
}

// comments returns the comments on a value.
func (o *output) comments(v *value) (parts []string) {
	if len(v.typeList()) > 1 {
		parts = append(parts, o.shares(v))
	}
	if o.enum(v) != nil {
		parts = append(parts, fmt.Sprintf("from %d values", v.count()))
	}
	return parts
}

// shares returns the types of values with their shares. The most frequent type is first.
func (o *output) shares(v *value) string {
	counts := v.types
	if counts[number] > 0 { // integers are also numbers
		counts[number] += counts[integer]
		counts[integer] = 0
	}
	var order []valueType
	for t, n := range counts {
		if n > 0 {
			order = append(order, valueType(t))
		}
	}
	slices.SortStableFunc(order, func(a, b valueType) int { return cmp.Compare(counts[b], counts[a]) })
	texts := make([]string, len(order))
	for i, t := range order {
		texts[i] = share(counts[t], v.count()) + " " + typeNames[t]
	}
	return strings.Join(texts, ", ")
}

// typeList returns the types of values. If there are other numbers, it omits integer.
func (v *value) typeList() []string {
	var types []string
	for _, t := range []valueType{object, array, stringType, integer, number, boolean, null} {
		if v.types[t] > 0 && !(t == integer && v.types[number] > 0) {
			types = append(types, typeNames[t])
		}
	}
	return types
}

// share formats a ratio in percent. It rounds to 0 % or 100 % only if the ratio is exact.
func share(part, whole int) string {
	percent := 100 * float64(part) / float64(whole)
	switch {
	case part == whole:
		return "100 %"
	case percent < 1:
		return "less than 1 %"
	case percent > 99:
		return "more than 99 %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

func callCount(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// list formats a single word as a scalar and several words as a list.
func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	if len(words) == 1 {
		return quoted[0]
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

var (
	plain    = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$.-]*( [A-Za-z0-9_$.-]+)*$`)
	reserved = regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n|nan|inf)$`)
)

// quote formats a string as YAML. If a plain scalar would be ambiguous, the result is a JSON
// string.
func quote(s string) string {
	if plain.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	return string(wire.AppendString(nil, s))
}
