package infer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// A Config configures an [Inference]. A field with the zero value uses its default.
type Config struct {
	// Name is the plan's name. Defaults to "inferred".
	Name string

	// MaxEnum is the maximum number of values of an enum. A string property with more
	// values is a plain string. A negative number disables enums. Defaults to 12.
	MaxEnum int

	// EnumRepeats is the minimum average number of occurrences of an enum's values. Defaults
	// to 10.
	EnumRepeats int

	// MaxProperties is the maximum number of properties of an object. An object with
	// more properties is described as a map with arbitrary keys. Defaults to 100.
	MaxProperties int

	// MaxEntries is the maximum number of event, page and screen names that have their own
	// entries. All other names share one entry for any name. Defaults to 2,000.
	MaxEntries int

	// MaxMemory is the maximum number of properties in all entries. A property uses about
	// 1 KB. After that, objects allow any additional properties. Defaults to 50,000.
	MaxMemory int
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "inferred"
	}
	for field, value := range map[*int]int{&c.MaxEnum: 12, &c.EnumRepeats: 10, &c.MaxProperties: 100, &c.MaxEntries: 2000, &c.MaxMemory: 50_000} {
		if *field == 0 {
			*field = value
		}
	}
	return c
}

// An Inference collects statistics about calls in bounded memory. It is not safe for
// concurrent use.
type Inference struct {
	config    Config
	calls     int
	ignored   int // number of calls whose type has no section in plans
	entries   map[entryKey]*entry
	remaining int // number of properties that may be added
}

type entryKey struct{ callType, name string }

// An entry contains the statistics of calls with one name.
type entry struct {
	calls int
	value *value
}

// New returns an Inference that has no calls yet.
func New(config Config) *Inference {
	config = config.withDefaults()
	return &Inference{config: config, entries: map[entryKey]*entry{}, remaining: config.MaxMemory}
}

// Limits for one call.
const (
	maxDepth     = 12
	maxKeyBytes  = 200
	maxEnumBytes = 64
)

// Add adds a call, which must be one JSON object. If plans do not describe calls of its type, such as
// alias, Add only counts it. The error reports invalid JSON or a missing type.
func (x *Inference) Add(call []byte) error {
	head, err := input.Read(call)
	if err != nil {
		return fmt.Errorf("infer: not a call: %w", err)
	}
	if head.Type == "" {
		return errors.New("infer: not a call: it has no type")
	}
	member := input.Member(head.Type)
	if member == "" {
		x.ignored++
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(head.Object(member)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("infer: not a call: %w", err)
	}
	x.calls++
	e := x.entry(head.Type, head.Title())
	e.calls++
	x.add(e.value, value, 0)
	return nil
}

// entry returns the entry for a name. If there are too many entries, it returns the shared entry
// for any name.
func (x *Inference) entry(callType, name string) *entry {
	key := entryKey{callType, name}
	if len(name) > maxKeyBytes {
		key.name = ""
	}
	if e := x.entries[key]; e != nil {
		return e
	}
	if len(x.entries) >= x.config.MaxEntries {
		key.name = ""
		if e := x.entries[key]; e != nil {
			return e
		}
	}
	e := &entry{value: &value{}}
	x.entries[key] = e
	return e
}

// Calls returns the number of calls that the plan describes, and the number of ignored calls.
func (x *Inference) Calls() (taken, ignored int) { return x.calls, x.ignored }

// A valueType is the type of a JSON value. number is a number that is not an integer.
type valueType int

const (
	null valueType = iota
	boolean
	integer
	number
	stringType
	object
	array
	valueTypes
)

var typeNames = [valueTypes]string{"null", "boolean", "integer", "number", "string", "object", "array"}

// A value contains the statistics of all values at one position in a call.
type value struct {
	types [valueTypes]int

	strings     map[string]int // number of occurrences of each string; nil if there are too many strings
	manyStrings bool
	formats     []string // the formats that all strings have

	properties map[string]*value // the properties of objects
	open       bool              // objects have other properties too
	mapping    *value            // the merged properties, if there were too many
	items      *value            // the items of arrays
	deep       bool              // the values are nested too deep to inspect
}

// count returns the number of values that were added.
func (v *value) count() int {
	n := 0
	for _, c := range v.types {
		n += c
	}
	return n
}

// add adds a value to the statistics v.
func (x *Inference) add(v *value, seen any, depth int) {
	switch seen := seen.(type) {
	case nil:
		v.types[null]++
	case bool:
		v.types[boolean]++
	case json.Number:
		if strings.ContainsAny(string(seen), ".eE") {
			v.types[number]++
		} else {
			v.types[integer]++
		}
	case string:
		x.addString(v, seen)
	case []any:
		v.types[array]++
		if depth == maxDepth {
			v.deep = true
			return
		}
		if v.items == nil && len(seen) > 0 {
			v.items = &value{}
			x.remaining--
		}
		for _, item := range seen {
			x.add(v.items, item, depth+1)
		}
	case map[string]any:
		v.types[object]++
		if depth == maxDepth {
			v.deep = true
			return
		}
		for key, member := range seen {
			x.addProperty(v, key, member, depth)
		}
	}
}

// detected contains the formats that are recognized, from the most to the least specific.
var detected = []string{"uuid", "date-time", "date", "email", "ipv4", "uri"}

func (x *Inference) addString(v *value, s string) {
	if v.types[stringType]++; v.types[stringType] == 1 {
		v.formats = slices.Clone(detected)
	}
	v.formats = slices.DeleteFunc(v.formats, func(name string) bool { return input.Formats()[name](s) != nil })
	switch {
	case v.manyStrings:
	case len(s) > maxEnumBytes || len(v.strings) >= x.config.MaxEnum && v.strings[s] == 0:
		v.strings, v.manyStrings = nil, true
	default:
		if v.strings == nil {
			v.strings = map[string]int{}
		}
		v.strings[s]++
	}
}

// addProperty adds the value of an object's property.
func (x *Inference) addProperty(v *value, key string, seen any, depth int) {
	if v.mapping == nil && v.properties[key] == nil && len(v.properties) < x.config.MaxProperties {
		if len(key) > maxKeyBytes || x.remaining <= 0 {
			v.open = true
			return
		}
		x.remaining--
	}
	x.add(x.property(v, key), seen, depth+1)
}

// property returns the statistics of a property. If the object has too many properties, these are the
// statistics of all properties.
func (x *Inference) property(v *value, key string) *value {
	if v.mapping == nil && v.properties[key] == nil && len(v.properties) >= x.config.MaxProperties {
		x.mergeProperties(v)
	}
	if v.mapping != nil {
		return v.mapping
	}
	if v.properties == nil {
		v.properties = map[string]*value{}
	}
	if v.properties[key] == nil {
		v.properties[key] = &value{}
	}
	return v.properties[key]
}

// mergeProperties replaces the properties of an object by one description of all values.
func (x *Inference) mergeProperties(v *value) {
	v.mapping = &value{}
	for _, m := range v.properties {
		x.merge(v.mapping, m)
	}
	x.remaining += len(v.properties)
	v.properties = nil
}

// merge adds the statistics in src to dst.
func (x *Inference) merge(dst, src *value) {
	first := dst.types[stringType] == 0
	for t, n := range src.types {
		dst.types[t] += n
	}
	if src.types[stringType] > 0 {
		if first {
			dst.formats = slices.Clone(src.formats)
		}
		dst.formats = slices.DeleteFunc(dst.formats, func(name string) bool { return !slices.Contains(src.formats, name) })
	}
	dst.open = dst.open || src.open
	dst.deep = dst.deep || src.deep
	dst.manyStrings = dst.manyStrings || src.manyStrings
	for s, n := range src.strings {
		if dst.strings == nil {
			dst.strings = map[string]int{}
		}
		dst.strings[s] += n
	}
	if dst.manyStrings || len(dst.strings) > x.config.MaxEnum {
		dst.strings, dst.manyStrings = nil, true
	}
	if src.items != nil {
		if dst.items == nil {
			dst.items = &value{}
		}
		x.merge(dst.items, src.items)
	}
	if src.mapping != nil {
		if dst.mapping == nil {
			x.mergeProperties(dst)
		}
		x.merge(dst.mapping, src.mapping)
	}
	for key, m := range src.properties {
		x.merge(x.property(dst, key), m)
	}
}
