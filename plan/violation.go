package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// A Kind is the kind of a violation.
type Kind string

// These are the kinds of violations.
const (
	UnplannedEvent    Kind = "unplanned event"    // the call's name is not in the plan
	MissingProperty   Kind = "missing property"   // a required property is missing
	WrongType         Kind = "wrong type"         // a value has a type that the plan does not allow
	InvalidValue      Kind = "invalid value"      // a value has an allowed type, but violates another requirement, such as an enum, a bound or a format
	UnplannedProperty Kind = "unplanned property" // the plan does not allow the property
	MalformedCall     Kind = "malformed call"     // the call is not a JSON object, or has no type
)

// Kinds contains all kinds of violations in display order.
var Kinds = []Kind{UnplannedEvent, MissingProperty, WrongType, InvalidValue, UnplannedProperty, MalformedCall}

// A Violation is a difference between a call and the plan.
type Violation struct {
	Kind      Kind   `json:"kind"`
	Type      string `json:"type,omitempty"`      // the type of the call
	Event     string `json:"event,omitempty"`     // the event of a track call, or the name of a page or screen
	MessageID string `json:"messageId,omitempty"` // the message ID of the call; empty if missing
	Pointer   string `json:"pointer"`             // JSON pointer into the call, such as /properties/items/0/sku
	Found     string `json:"found,omitempty"`     // the value in the call as JSON, at most 100 bytes; empty if missing
	Expected  string `json:"expected"`            // the allowed values, such as: one of "EUR", "USD"
	Near      string `json:"near,omitempty"`      // the name or value in the plan that is spelled most similarly
	File      string `json:"file,omitempty"`      // the file of the plan
	Line      int    `json:"line,omitempty"`      // line in the file, starting at 1; 0 if no line applies
}

// Call returns the call's display name, such as track "Order Completed".
func (v Violation) Call() string {
	if v.Type == "" {
		return "a call"
	}
	if v.Event == "" {
		return v.Type
	}
	return callName(v.Type, v.Event)
}

// Text describes the violation without the call and the position in the plan.
func (v Violation) Text() string {
	var b strings.Builder
	switch {
	case v.Kind == UnplannedEvent:
		b.WriteString("is not in the plan")
	case v.Kind == MalformedCall && v.Pointer == "":
		fmt.Fprintf(&b, "found %s; expected %s", cmp.Or(v.Found, "nothing"), v.Expected)
	case v.Kind == MissingProperty, v.Kind == MalformedCall:
		fmt.Fprintf(&b, "%s is missing; expected %s", v.Pointer, v.Expected)
	case v.Kind == UnplannedProperty:
		fmt.Fprintf(&b, "%s is not in the plan", v.Pointer)
	case v.Kind == WrongType:
		fmt.Fprintf(&b, "%s is %s, %s; expected %s", v.Pointer, v.Found, withArticle(typeOf(v.Found)), v.Expected)
	default:
		fmt.Fprintf(&b, "%s is %s; expected %s", v.Pointer, v.Found, v.Expected)
	}
	if v.Near != "" {
		fmt.Fprintf(&b, "; did you mean %s?", v.Near)
	}
	return b.String()
}

// Sentence describes the violation and the call, without the position in the plan.
func (v Violation) Sentence() string {
	if v.Kind == UnplannedEvent {
		return v.Call() + " " + v.Text()
	}
	return v.Call() + ": " + v.Text()
}

// String returns the violation in one line, with the call and the position in the plan:
//
//	track "Order Completed": /properties/currency is "GBP"; expected one of "EUR", "USD" (plan.yaml:8)
func (v Violation) String() string {
	if v.File == "" {
		return v.Sentence()
	}
	return v.Sentence() + " (" + place(v.File, v.Line) + ")"
}

// typeOf returns the type of a JSON value, which its first byte determines.
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

// withArticle returns the name of a type with its article.
func withArticle(name string) string {
	switch name {
	case "integer", "array", "object":
		return "an " + name
	case "null", "nothing":
		return name
	}
	return "a " + name
}

// excerpt returns a value as JSON, shortened to 100 bytes.
func excerpt(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return ""
	}
	return shorten(strings.TrimSuffix(b.String(), "\n"))
}

// maxExcerpt is the maximum length of a quoted value in bytes.
const maxExcerpt = 100

func shorten(s string) string { return cut(maxExcerpt, s) }

// cut shortens a string to n bytes.
func cut(n int, s string) string {
	if len(s) <= n {
		return s
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(s[:n-len(ellipsis)], "") + ellipsis
}
