package infer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/calls"
	"github.com/seed-45eadc4a/analytics-go/plan/internal/formats"
)

// A Config says how calls become a plan. The zero value has all defaults.
type Config struct {
	// Name is the name of the plan. Defaults to "inferred".
	Name string

	// MaxEnum is how many values a property of strings may have to become an enum.
	// Negative means that there are no enums. Defaults to 12.
	MaxEnum int

	// EnumRepeats is how often each of these values must have come on average: of few
	// calls it cannot be known. Defaults to 10.
	EnumRepeats int

	// MaxProperties is how many different properties an object may have. One with more
	// is taken as a mapping, whose keys are not planned. Defaults to 100.
	MaxProperties int

	// MaxEntries is how many events, pages and screens of different names are told
	// apart. Others become the entry of any name. Defaults to 2,000.
	MaxEntries int

	// MaxMemory is how many properties, of all entries together, are remembered, of
	// about 1 KB each. Objects of which there is no room for more take any property.
	// Defaults to 50,000.
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

// An Inference gathers what calls have. Its memory is bounded however many come. It is
// for one goroutine at a time.
type Inference struct {
	config  Config
	calls   int
	ignored int // of types that plans do not have
	entries map[entryKey]*entry
	room    int // how many values may still be remembered
}

type entryKey struct{ callType, name string }

// An entry is what the calls of one name have.
type entry struct {
	calls int
	value *value
}

// New returns an inference that has seen no calls.
func New(config Config) *Inference {
	config = config.withDefaults()
	return &Inference{config: config, entries: map[entryKey]*entry{}, room: config.MaxMemory}
}

// Limits of what is remembered of one call.
const (
	maxDepth     = 12
	maxKeyBytes  = 200
	maxEnumBytes = 64
)

// Add takes a call, one JSON object, into account. Calls of types that plans do not
// have, such as alias, are counted and ignored. The error says why bytes are no call.
func (x *Inference) Add(call []byte) error {
	head, err := calls.Read(call)
	if err != nil {
		return fmt.Errorf("infer: not a call: %w", err)
	}
	if head.Type == "" {
		return errors.New("infer: not a call: it has no type")
	}
	member := calls.Member(head.Type)
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

// entry returns the entry of calls of a name, which is the one of any name when there
// are too many.
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

// Calls returns how many calls were taken into account, and how many were ignored for
// their type.
func (x *Inference) Calls() (taken, ignored int) { return x.calls, x.ignored }

// The types of values. A number is one that is no integer.
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

// A value is what was seen at one place.
type value struct {
	types [valueTypes]int

	texts     map[string]int // strings, until there are too many
	manyTexts bool
	formats   []string // that all strings so far have

	members map[string]*value // of objects
	open    bool              // objects have more members than those
	mapping *value            // what all members have, of objects with too many
	items   *value            // of arrays
	deep    bool              // not looked into: too deep
}

// count returns how many values were seen.
func (v *value) count() int {
	n := 0
	for _, c := range v.types {
		n += c
	}
	return n
}

// add takes one value into account.
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
			x.room--
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
			x.addMember(v, key, member, depth)
		}
	}
}

// guessed are the formats that are looked for, the narrower ones first.
var guessed = []string{"uuid", "date-time", "date", "email", "ipv4", "uri"}

func (x *Inference) addString(v *value, s string) {
	if v.types[stringType]++; v.types[stringType] == 1 {
		v.formats = slices.Clone(guessed)
	}
	v.formats = slices.DeleteFunc(v.formats, func(name string) bool { return formats.All()[name](s) != nil })
	switch {
	case v.manyTexts:
	case len(s) > maxEnumBytes || len(v.texts) >= x.config.MaxEnum && v.texts[s] == 0:
		v.texts, v.manyTexts = nil, true
	default:
		if v.texts == nil {
			v.texts = map[string]int{}
		}
		v.texts[s]++
	}
}

// addMember takes a member of an object into account.
func (x *Inference) addMember(v *value, key string, seen any, depth int) {
	if v.mapping != nil {
		x.add(v.mapping, seen, depth+1)
		return
	}
	m := v.members[key]
	if m == nil {
		switch {
		case len(v.members) >= x.config.MaxProperties:
			x.toMapping(v)
			x.add(v.mapping, seen, depth+1)
			return
		case len(key) > maxKeyBytes || x.room <= 0:
			v.open = true
			return
		}
		x.room--
		if v.members == nil {
			v.members = map[string]*value{}
		}
		m = &value{}
		v.members[key] = m
	}
	x.add(m, seen, depth+1)
}

// toMapping gives up to tell the members of an object apart.
func (x *Inference) toMapping(v *value) {
	v.mapping = &value{}
	for _, m := range v.members {
		x.merge(v.mapping, m)
	}
	x.room += len(v.members)
	v.members = nil
}

// merge adds what was seen at one place to what was seen at another.
func (x *Inference) merge(into, from *value) {
	first := into.types[stringType] == 0
	for t, n := range from.types {
		into.types[t] += n
	}
	if from.types[stringType] > 0 {
		if first {
			into.formats = slices.Clone(from.formats)
		}
		into.formats = slices.DeleteFunc(into.formats, func(name string) bool { return !slices.Contains(from.formats, name) })
	}
	into.open = into.open || from.open
	into.deep = into.deep || from.deep
	into.manyTexts = into.manyTexts || from.manyTexts
	for s, n := range from.texts {
		if into.texts == nil {
			into.texts = map[string]int{}
		}
		into.texts[s] += n
	}
	if into.manyTexts || len(into.texts) > x.config.MaxEnum {
		into.texts, into.manyTexts = nil, true
	}
	if from.items != nil {
		if into.items == nil {
			into.items = &value{}
		}
		x.merge(into.items, from.items)
	}
	if from.mapping != nil || len(into.members)+len(from.members) > x.config.MaxProperties {
		x.mergeMapping(into, from)
		return
	}
	for key, m := range from.members {
		if into.mapping != nil {
			x.merge(into.mapping, m)
			continue
		}
		if into.members == nil {
			into.members = map[string]*value{}
		}
		if into.members[key] == nil {
			into.members[key] = &value{}
		}
		x.merge(into.members[key], m)
	}
}

func (x *Inference) mergeMapping(into, from *value) {
	if into.mapping == nil {
		x.toMapping(into)
	}
	if from.mapping != nil {
		x.merge(into.mapping, from.mapping)
	}
	for _, m := range from.members {
		x.merge(into.mapping, m)
	}
}
