package fields

import "slices"

// A CallType describes a type of call that senders may send.
type CallType struct {
	Name string
	// Short is the last element of the short path of browser and mobile libraries. It is empty if the
	// libraries of the service do not have the type.
	Short string
	// About describes a call, and Example contains flags of the command collector send.
	About, Example string
	// Own contains the fields that not all types have. In calls of other types, they may have any
	// value: a call that was accepted must still be accepted after another type gets a field.
	Own []Field
	// Title is the field that names the event. Optional.
	Title Field
	// Required is a field of Own that must not be empty. Optional. Code, Problem and Hint are for
	// calls without it.
	Required            Field
	Code, Problem, Hint string
	// NoUser is the problem of calls without a userId. If it is empty, an anonymousId is sufficient.
	NoUser string
	// Body contains the fields of the webhook body between type and timestamp. An anonymousId follows
	// UserID.
	Body []Field
}

// CallTypes contains the types of calls that senders may send, most frequent first.
var CallTypes = []CallType{
	{Name: "track", Short: "t", About: "Record an event",
		Example: `--event 'Signed Up' --user-id u1 --properties '{"plan":"Pro"}'`,
		Own:     []Field{Event, Properties}, Title: Event, Required: Event,
		Code: "event_not_defined", Problem: "a track call needs the name of its event",
		Hint: "Set event to the name of the event, such as Order Completed.",
		Body: []Field{UserID, Event, Properties}},
	{Name: "identify", Short: "i", About: "Identify a user",
		Example: `--user-id u1 --traits '{"plan":"Pro"}'`,
		Own:     []Field{Traits}, Body: []Field{UserID, Traits}},
	{Name: "page", Short: "p", About: "Record a page view",
		Example: `--name Pricing --user-id u1 --properties '{"path":"/pricing"}'`,
		Own:     []Field{Category, Name, Properties}, Title: Name, Body: []Field{UserID, Properties}},
	{Name: "screen", Short: "s", About: "Record a screen view",
		Example: `--name Home --anonymous-id a1`,
		Own:     []Field{Category, Name, Properties}, Title: Name, Body: []Field{UserID, Name}},
	{Name: "group", Short: "g", About: "Add a user to a group",
		Example: `--group-id acme --user-id u1 --traits '{"employees":120}'`,
		Own:     []Field{GroupID, Traits}, Required: GroupID,
		Code: "group_id_missing", Problem: "a group call needs a groupId",
		Hint: "Set groupId to the ID of the company, account or team.",
		Body: []Field{GroupID, UserID, Traits}},
	{Name: "alias", Short: "a", About: "Link two IDs of a user",
		Example: `--user-id u1 --previous-id a1`,
		Own:     []Field{PreviousID}, Required: PreviousID,
		Code: "previous_id_missing", Problem: "an alias call needs a previousId",
		Hint:   "Set previousId to the old ID of the user and userId to the new one.",
		NoUser: "an alias call needs a userId: the new ID", Body: []Field{PreviousID, UserID}},
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

// TypeNamed returns the type with a name. For unknown names, it returns an empty type.
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
