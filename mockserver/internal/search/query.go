package search

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// A Query is a list of terms that must all hold. None picks all.
type Query []Term

// A Term is one condition.
type Term struct {
	Not   bool
	Field string   // the name of one of Fields; empty for a text anywhere in a call
	Path  []string // of the member below properties, traits or context
	Op    Op
	Value string
}

// An Op is how a value is compared.
type Op string

// Ops. Numbers alone are compared by the last four.
const (
	OpLike    Op = ""  // it has the value in it, in any case; members, states and names are the value
	OpEqual   Op = "=" // it is the value to the letter
	OpExists  Op = "*" // there is one
	OpMore    Op = ">"
	OpAtLeast Op = ">="
	OpLess    Op = "<"
	OpAtMost  Op = "<="
)

// A Field is what a term can be about.
type Field struct {
	Name    string
	About   string   // what it is, for people who choose one
	Example string   // a term that has it
	Values  []string // the values that it can have, where these are all
	kind    kind
}

type kind uint8

const (
	textField   kind = iota // part of a text
	nameField               // a whole name
	statusField             // a state, or the status of an answer
	timeField               // a time, or how long ago
	memberField             // a member below an object of the call
)

// Fields are the fields that there are, in the order in which they are offered.
var Fields = []Field{
	{Name: "event", About: "part of an event, page or screen name", Example: `event:"Signed Up"`},
	{Name: "user", About: "part of a userId, anonymousId, groupId or previousId", Example: "user:ada"},
	{Name: "status", About: "delivery status, or the status of the last response", Example: "status:failed", kind: statusField,
		Values: []string{"delivered", "pending", "failed", "filtered", "unknown", "none", "rejected", "repeated"}},
	{Name: "type", About: "call type", Example: "type:track", kind: nameField, Values: []string{"track", "identify", "page", "screen", "group", "alias", "delete"}},
	{Name: "source", About: "source name", Example: "source:web", kind: nameField},
	{Name: "destination", About: "destination name; status then applies to this destination", Example: "destination:crm", kind: nameField},
	{Name: "prop", About: "property", Example: "prop.plan:Pro", kind: memberField},
	{Name: "traits", About: "trait", Example: "traits.city:Berlin", kind: memberField},
	{Name: "context", About: "context field", Example: "context.library.name:analytics-go", kind: memberField},
	{Name: "id", About: "part of the messageId", Example: "id:order-5512"},
	{Name: "since", About: "received after: a time or age", Example: "since:1h", kind: timeField},
	{Name: "until", About: "received before: a time or age", Example: "until:2026-01-31T12:00:00Z", kind: timeField},
	{Name: "is", About: "own: synthetic calls; unplanned: plan violations", Example: "-is:own", kind: nameField, Values: []string{"own", "unplanned"}},
}

// fieldNamed returns the field of a name, or nil.
func fieldNamed(name string) *Field {
	for i := range Fields {
		if Fields[i].Name == name {
			return &Fields[i]
		}
	}
	return nil
}

// String writes the query as Parse reads it.
func (q Query) String() string {
	words := make([]string, len(q))
	for i, t := range q {
		words[i] = t.String()
	}
	return strings.Join(words, " ")
}

// String writes the term as Parse reads it.
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

// Without returns the query without its i-th term.
func (q Query) Without(i int) Query {
	return slices.Delete(slices.Clone(q), i, i+1)
}

// Drop returns the query without the terms of some fields.
func (q Query) Drop(fields ...string) Query {
	return slices.DeleteFunc(slices.Clone(q), func(t Term) bool { return slices.Contains(fields, t.Field) })
}

// HasRelativeTime reports whether what the query picks changes as time passes.
func (q Query) HasRelativeTime() bool {
	return slices.ContainsFunc(q, Term.isAge)
}

// isAge reports whether the term is a time relative to now.
func (t Term) isAge() bool {
	_, relative := readAge(t.Value)
	return relative && (t.Field == "since" || t.Field == "until")
}

// Fixed returns the query with the times that its ages stand for now.
func (q Query) Fixed(now time.Time) Query {
	fixed := slices.Clone(q)
	for i, t := range fixed {
		if t.isAge() {
			fixed[i].Value = t.Time(now).UTC().Format("2006-01-02T15:04:05.000Z")
		}
	}
	return fixed
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quoteValue quotes a value where it could be read as something else.
func quoteValue(s string) string {
	if s == "" || strings.ContainsAny(s[:1], "=<>*") || strings.ContainsFunc(s, endsWord) || strings.Contains(s, `"`) {
		return quote(s)
	}
	return s
}

// quoteText quotes a text where it could be read as something else than a text.
func quoteText(s string) string {
	if s == "" || s[0] == '-' || strings.ContainsFunc(s, endsWord) || strings.ContainsAny(s, `".:`) {
		return quote(s)
	}
	return s
}

// isPlainName reports whether the name of a member needs no quotes.
func isPlainName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return endsWord(r) || strings.ContainsRune(`".:`, r) })
}

// endsWord reports whether a character stands between two terms.
func endsWord(r rune) bool { return unicode.IsSpace(r) }

// Time returns what since and until stand for at a time. Parse has checked that it can be
// read; of one that cannot it is zero.
func (t Term) Time(now time.Time) time.Time {
	at, _ := readTime(t.Value, now)
	return at
}
