package fields

import (
	"cmp"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A CallType describes a type of call that senders may send.
type CallType struct {
	Name string
	// Short is the last element of the short path of browser and mobile libraries. Optional.
	Short string
	// Own contains the fields that not all types have. In calls of other types, they may have any
	// value: a call that was accepted must still be accepted after another type gets a field.
	Own []Field
	// Title is the field that names the event. Optional.
	Title Field
	// Required is a field of Own that must not be empty. Optional. Code and Problem are for calls
	// without it.
	Required Field
	Code     tracking.Code
	Problem  string
}

// CallTypes contains the types of calls that senders may send, most frequent first.
var CallTypes = []CallType{
	{Name: "track", Short: "t", Own: []Field{Event, Properties}, Title: Event, Required: Event,
		Code: tracking.CodeNoEvent, Problem: "a track call needs the name of its event"},
	{Name: "identify", Short: "i", Own: []Field{Traits}},
	{Name: "page", Short: "p", Own: []Field{Name, Category, Properties}, Title: Name},
	{Name: "screen", Short: "s", Own: []Field{Name, Category, Properties}, Title: Name},
	{Name: "group", Short: "g", Own: []Field{GroupID, Traits}, Required: GroupID,
		Code: tracking.CodeNoGroup, Problem: "a group call needs a groupId"},
	{Name: "alias", Short: "a", Own: []Field{PreviousID}, Required: PreviousID,
		Code: tracking.CodeNoPrevious, Problem: "an alias call needs a previousId"},
}

var (
	// Types contains the names of CallTypes.
	Types = namesOf(func(*CallType) bool { return true })
	// StoredTypes also contains the type of deletion notifications, which senders may not send.
	StoredTypes = append(slices.Clone(Types), "delete")
	// EventTypes contains the types with properties or traits. Their events have statistics.
	EventTypes = namesOf(func(t *CallType) bool { return t.Has(Properties) || t.Has(Traits) })
)

func namesOf(wanted func(*CallType) bool) (names []string) {
	for i := range CallTypes {
		if wanted(&CallTypes[i]) {
			names = append(names, CallTypes[i].Name)
		}
	}
	return names
}

// TypeNamed returns the type with a name. For unknown names, it returns a type without a name.
func TypeNamed(name string) *CallType {
	for i := range CallTypes {
		if CallTypes[i].Name == name {
			return &CallTypes[i]
		}
	}
	return &unknown
}

var unknown CallType

// Has reports whether calls of the type have a field.
func (t *CallType) Has(f Field) bool {
	return slices.Contains(t.Own, f) ||
		!slices.ContainsFunc(CallTypes, func(other CallType) bool { return slices.Contains(other.Own, f) })
}

// Describing returns Traits for calls with traits, such as identify and group calls, and Properties
// for other types.
func Describing(typ string) Field {
	if slices.Contains(TypeNamed(typ).Own, Traits) {
		return Traits
	}
	return Properties
}

// EventName returns the name of the event of a track call, or the name of a page or screen. For
// other types of calls it returns "". A rejected call of an unknown type may have either name.
func EventName(c *tracking.Call) string {
	switch t := TypeNamed(c.Type); {
	case t == &unknown:
		return cmp.Or(c.Event, c.Name)
	case t.Title != otherField:
		return *TextOf(c, t.Title)
	}
	return ""
}
