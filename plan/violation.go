package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// A Kind is what is wrong with a call.
type Kind string

// The kinds of violation.
const (
	UnplannedEvent    Kind = "unplanned event"    // the plan has calls of this type, and not of this name
	MissingProperty   Kind = "missing property"   // a required property is not there
	WrongType         Kind = "wrong type"         // a value of another type than the plan's
	InvalidValue      Kind = "invalid value"      // the right type, but not in enum, out of bounds, not of the format, and so on
	UnplannedProperty Kind = "unplanned property" // a property that the plan does not allow
	MalformedCall     Kind = "malformed call"     // no JSON object, or without a type
)

// Kinds are all kinds of violation, in the order in which they are listed.
var Kinds = []Kind{UnplannedEvent, MissingProperty, WrongType, InvalidValue, UnplannedProperty, MalformedCall}

// A Violation is one way in which one call is not as planned.
type Violation struct {
	Kind      Kind   `json:"kind"`
	Type      string `json:"type,omitempty"`      // of the call
	Event     string `json:"event,omitempty"`     // of a track call, or the name of a page or screen
	MessageID string `json:"messageId,omitempty"` // of the call, if it has one
	Pointer   string `json:"pointer"`             // a JSON pointer into the call, as in /properties/items/0/sku
	Found     string `json:"found,omitempty"`     // the call's value as JSON, at most 100 bytes; empty where there is none
	Expected  string `json:"expected"`            // what the plan says, as in one of "EUR", "USD"
	Near      string `json:"near,omitempty"`      // the planned name or value that was perhaps meant
	File      string `json:"file,omitempty"`      // of the plan
	Line      int    `json:"line,omitempty"`      // in it, from 1; 0 where no line is at fault
}

// Call names the call, as in track "Order Completed".
func (v Violation) Call() string {
	if v.Type == "" {
		return "a call"
	}
	if v.Event == "" {
		return v.Type
	}
	return callName(v.Type, v.Event)
}

// Text says in one sentence what is wrong, without the call and the line of the plan.
func (v Violation) Text() string {
	var b strings.Builder
	switch v.Kind {
	case UnplannedEvent:
		b.WriteString("is not in the plan")
	case MissingProperty:
		fmt.Fprintf(&b, "%s is missing; the plan requires %s", v.Pointer, v.Expected)
	case UnplannedProperty:
		fmt.Fprintf(&b, "%s is not in the plan", v.Pointer)
	case MalformedCall:
		fmt.Fprintf(&b, "%s is %s; the plan says %s", cmp.Or(v.Pointer, "all of it"), cmp.Or(v.Found, "nothing"), v.Expected)
	case WrongType:
		fmt.Fprintf(&b, "%s is %s, %s; the plan says %s", v.Pointer, v.Found, withArticle(typeOf(v.Found)), v.Expected)
	default:
		fmt.Fprintf(&b, "%s is %s; the plan says %s", v.Pointer, v.Found, v.Expected)
	}
	if v.Near != "" {
		fmt.Fprintf(&b, "; did you mean %s?", v.Near)
	}
	return b.String()
}

// Sentence returns the call and what is wrong with it, without the line of the plan.
func (v Violation) Sentence() string {
	if v.Kind == UnplannedEvent {
		return v.Call() + " " + v.Text()
	}
	return v.Call() + ": " + v.Text()
}

// String returns the violation in one line: the call, what is wrong, and the line of the
// plan.
//
//	track "Order Completed": /properties/currency is "GBP"; the plan says one of "EUR", "USD" (plan.yaml:8)
func (v Violation) String() string {
	text := v.Sentence()
	if v.File == "" {
		return text
	}
	if v.Line == 0 {
		return fmt.Sprintf("%s (%s)", text, v.File)
	}
	return fmt.Sprintf("%s (%s:%d)", text, v.File, v.Line)
}

// typeOf returns the type of a value by the first byte of its JSON.
func typeOf(text string) string {
	switch {
	case text == "":
		return "nothing"
	case text[0] == '"':
		return "string"
	case text[0] == '{':
		return "object"
	case text[0] == '[':
		return "array"
	case text[0] == 't' || text[0] == 'f':
		return "boolean"
	case text[0] == 'n':
		return "null"
	}
	return "number"
}

// withArticle returns the name of a type for a sentence.
func withArticle(name string) string {
	switch name {
	case "integer", "array", "object":
		return "an " + name
	case "null", "nothing":
		return name
	}
	return "a " + name
}

// excerpt returns a value as JSON, at most 100 bytes of it.
func excerpt(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return ""
	}
	return shorten(strings.TrimSuffix(b.String(), "\n"))
}

// maxExcerpt is how many bytes of a value are shown.
const maxExcerpt = 100

func shorten(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(s[:maxExcerpt-len(ellipsis)], "") + ellipsis
}
