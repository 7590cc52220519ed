package search

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// A Query is a list of terms that must all match. An empty query matches all calls.
type Query []Term

// A Term is one condition.
type Term struct {
	Not   bool
	Field string   // name of a Field; empty for text anywhere in a call
	Path  []string // path of a field in properties, traits or context
	Op    Op
	Value string
}

// An Op is a comparison.
type Op string

// Comparison operators. The last four apply only to numbers.
const (
	OpLike    Op = ""  // contains the value, or begins with it if it ends in *, ignoring case; fields of the body, states and names must equal it
	OpEqual   Op = "=" // equals the value
	OpExists  Op = "*" // has any value
	OpMore    Op = ">"
	OpAtLeast Op = ">="
	OpLess    Op = "<"
	OpAtMost  Op = "<="
)

// A Field is a searchable field.
type Field struct {
	Name    string
	About   string   // description in the user interface
	Example string   // an example term
	Values  []string // all valid values, or nil
	kind    kind
	object  fields.Field // the object of a call that a memberField searches
}

type kind uint8

const (
	textField   kind = iota // any substring
	nameField               // a complete name
	statusField             // a state of a call, or a response status
	timeField               // a time or an age
	memberField             // a field of an object in the call
)

// Fields contains the searchable fields, in the order in which they are suggested.
var Fields = []Field{
	{Name: "event", About: "part of an event, page or screen name; Order* matches the beginning", Example: `event:"Signed Up"`},
	{Name: "user", About: "part of a userId, anonymousId, groupId or previousId", Example: "user:ada"},
	{Name: "status", About: "delivery status, or the status of the last response", Example: "status:failed", kind: statusField,
		Values: []string{"delivered", "pending", "failed", "filtered", "unknown", "none", "rejected", "repeated"}},
	{Name: "type", About: "call type", Example: "type:track", kind: nameField, Values: fields.StoredTypes},
	{Name: "source", About: "source name", Example: "source:web", kind: nameField},
	{Name: "destination", About: "destination name; status then applies to this destination", Example: "destination:crm", kind: nameField},
	{Name: "prop", About: "property", Example: "prop.plan:Pro", kind: memberField, object: fields.Properties},
	{Name: "traits", About: "trait", Example: "traits.city:Berlin", kind: memberField, object: fields.Traits},
	{Name: "context", About: "context field", Example: "context.library.name:analytics-go", kind: memberField, object: fields.Context},
	{Name: "id", About: "part of the messageId", Example: "id:order-5512"},
	{Name: "since", About: "received after: a time or age", Example: "since:1h", kind: timeField},
	{Name: "until", About: "received before: a time or age", Example: "until:2026-01-31T12:00:00Z", kind: timeField},
	{Name: "is", About: "own: synthetic calls; unplanned: plan violations", Example: "-is:own", kind: nameField, Values: []string{"own", "unplanned"}},
}

// fieldNamed returns the field with a name. For other names, it returns an empty Field.
func fieldNamed(name string) *Field {
	for i := range Fields {
		if Fields[i].Name == name {
			return &Fields[i]
		}
	}
	return &Field{}
}

// String formats the query. Parse can read the result.
func (q Query) String() string {
	words := make([]string, len(q))
	for i, t := range q {
		words[i] = t.String()
	}
	return strings.Join(words, " ")
}

// String formats the term. Parse can read the result.
func (t Term) String() string {
	var out strings.Builder
	if t.Not {
		out.WriteByte('-')
	}
	if t.Field == "" {
		out.WriteString(quoteText(t.Value))
		return out.String()
	}
	out.WriteString(t.Field)
	for _, name := range t.Path {
		out.WriteByte('.')
		if isPlainName(name) {
			out.WriteString(name)
		} else {
			out.WriteString(quote(name))
		}
	}
	out.WriteByte(':')
	out.WriteString(string(t.Op))
	if t.Op != OpExists {
		out.WriteString(quoteValue(t.Value))
	}
	return out.String()
}

func (q Query) Without(i int) Query {
	return slices.Delete(slices.Clone(q), i, i+1)
}

// Drop returns the query without terms that have one of the given fields.
func (q Query) Drop(fields ...string) Query {
	return slices.DeleteFunc(slices.Clone(q), func(t Term) bool { return slices.Contains(fields, t.Field) })
}

// HasRelativeTime reports whether the query contains a time relative to now.
func (q Query) HasRelativeTime() bool {
	return slices.ContainsFunc(q, Term.isAge)
}

// isAge reports whether the value of the term is a time relative to now.
func (t Term) isAge() bool {
	_, relative := readAge(t.Value)
	return relative && (t.Field == "since" || t.Field == "until")
}

// Fixed returns the query with absolute times in place of times relative to now.
func (q Query) Fixed(now time.Time) Query {
	fixed := slices.Clone(q)
	for i, t := range fixed {
		if t.isAge() {
			fixed[i].Value = t.Time(now).UTC().Format(fields.TimeLayout)
		}
	}
	return fixed
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quoteValue quotes a value if Parse would otherwise read it differently.
func quoteValue(s string) string {
	if s == "" || strings.ContainsAny(s[:1], "=<>*") || strings.ContainsFunc(s, endsWord) || strings.Contains(s, `"`) {
		return quote(s)
	}
	return s
}

// quoteText quotes text if Parse would otherwise read it as a field or an operator.
func quoteText(s string) string {
	if s == "" || s[0] == '-' || strings.ContainsFunc(s, endsWord) || strings.ContainsAny(s, `".:`) {
		return quote(s)
	}
	return s
}

// isPlainName reports whether a name needs no quotes.
func isPlainName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return endsWord(r) || strings.ContainsRune(`".:`, r) })
}

// endsWord reports whether a character ends a term.
func endsWord(r rune) bool { return unicode.IsSpace(r) }

// Time returns the time of a term with the field since or until. Ages are relative to now. The result
// is the zero time for an invalid value, which Parse rejects.
func (t Term) Time(now time.Time) time.Time {
	at, _ := ReadTime(t.Value, now)
	return at
}
