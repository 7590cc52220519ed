package analytics

import "time"

// Message is one of Alias, Group, Identify, Page, Screen and Track, or a pointer to one.
// Other types that satisfy it cannot be enqueued.
type Message interface {
	// Validate returns a FieldError if the message lacks a field that it needs.
	Validate() error
}

// Alias says that the user known as PreviousId is now known as UserId. It needs both.
type Alias struct {
	// Type is set by the client, in what a Callback gets and on the wire. A value given
	// here is ignored. So it is in the other messages.
	Type string `json:"type,omitempty"`

	// MessageId names the message for good: every retry has it, and collectors drop
	// repeats by it. Defaults to a fresh UUID.
	MessageId  string `json:"messageId,omitempty"`
	PreviousId string `json:"previousId"`
	UserId     string `json:"userId"`

	// Timestamp is when it happened. It goes on the wire in UTC with milliseconds.
	// Defaults to the time of Enqueue.
	Timestamp    time.Time    `json:"timestamp,omitempty"`
	Context      *Context     `json:"context,omitempty"`
	Integrations Integrations `json:"integrations,omitempty"`
}

// Validate returns a FieldError if UserId or PreviousId is missing.
func (msg Alias) Validate() error {
	if msg.UserId == "" {
		return missing("analytics.Alias", "UserId")
	}
	if msg.PreviousId == "" {
		return missing("analytics.Alias", "PreviousId")
	}
	return nil
}

// Group ties a user to a group. It needs a GroupId, and a UserId or an AnonymousId.
type Group struct {
	Type         string       `json:"type,omitempty"`
	MessageId    string       `json:"messageId,omitempty"`
	AnonymousId  string       `json:"anonymousId,omitempty"`
	UserId       string       `json:"userId,omitempty"`
	GroupId      string       `json:"groupId"`
	Timestamp    time.Time    `json:"timestamp,omitempty"`
	Context      *Context     `json:"context,omitempty"`
	Traits       Traits       `json:"traits,omitempty"`
	Integrations Integrations `json:"integrations,omitempty"`
}

// Validate returns a FieldError if GroupId, or both UserId and AnonymousId are missing.
func (msg Group) Validate() error {
	if msg.GroupId == "" {
		return missing("analytics.Group", "GroupId")
	}
	return checkIDs("analytics.Group", msg.UserId, msg.AnonymousId)
}

// Identify ties a user to traits. It needs a UserId or an AnonymousId.
type Identify struct {
	Type         string       `json:"type,omitempty"`
	MessageId    string       `json:"messageId,omitempty"`
	AnonymousId  string       `json:"anonymousId,omitempty"`
	UserId       string       `json:"userId,omitempty"`
	Timestamp    time.Time    `json:"timestamp,omitempty"`
	Context      *Context     `json:"context,omitempty"`
	Traits       Traits       `json:"traits,omitempty"`
	Integrations Integrations `json:"integrations,omitempty"`
}

// Validate returns a FieldError if both UserId and AnonymousId are missing.
func (msg Identify) Validate() error {
	return checkIDs("analytics.Identify", msg.UserId, msg.AnonymousId)
}

// Page records that a user saw a page of a website. It needs a UserId or an AnonymousId.
type Page struct {
	Type         string       `json:"type,omitempty"`
	MessageId    string       `json:"messageId,omitempty"`
	AnonymousId  string       `json:"anonymousId,omitempty"`
	UserId       string       `json:"userId,omitempty"`
	Name         string       `json:"name,omitempty"`
	Timestamp    time.Time    `json:"timestamp,omitempty"`
	Context      *Context     `json:"context,omitempty"`
	Properties   Properties   `json:"properties,omitempty"`
	Integrations Integrations `json:"integrations,omitempty"`
}

// Validate returns a FieldError if both UserId and AnonymousId are missing.
func (msg Page) Validate() error { return checkIDs("analytics.Page", msg.UserId, msg.AnonymousId) }

// Screen records that a user saw a screen of an app. It needs a UserId or an AnonymousId.
type Screen struct {
	Type         string       `json:"type,omitempty"`
	MessageId    string       `json:"messageId,omitempty"`
	AnonymousId  string       `json:"anonymousId,omitempty"`
	UserId       string       `json:"userId,omitempty"`
	Name         string       `json:"name,omitempty"`
	Timestamp    time.Time    `json:"timestamp,omitempty"`
	Context      *Context     `json:"context,omitempty"`
	Properties   Properties   `json:"properties,omitempty"`
	Integrations Integrations `json:"integrations,omitempty"`
}

// Validate returns a FieldError if both UserId and AnonymousId are missing.
func (msg Screen) Validate() error { return checkIDs("analytics.Screen", msg.UserId, msg.AnonymousId) }

// Track records something that a user did. It needs an Event, and a UserId or an
// AnonymousId.
type Track struct {
	Type         string       `json:"type,omitempty"`
	MessageId    string       `json:"messageId,omitempty"`
	AnonymousId  string       `json:"anonymousId,omitempty"`
	UserId       string       `json:"userId,omitempty"`
	Event        string       `json:"event"`
	Timestamp    time.Time    `json:"timestamp,omitempty"`
	Context      *Context     `json:"context,omitempty"`
	Properties   Properties   `json:"properties,omitempty"`
	Integrations Integrations `json:"integrations,omitempty"`
}

// Validate returns a FieldError if Event, or both UserId and AnonymousId are missing.
func (msg Track) Validate() error {
	if msg.Event == "" {
		return missing("analytics.Track", "Event")
	}
	return checkIDs("analytics.Track", msg.UserId, msg.AnonymousId)
}

func missing(typ, name string) error { return FieldError{Type: typ, Name: name, Value: ""} }

func checkIDs(typ, userID, anonymousID string) error {
	if userID == "" && anonymousID == "" {
		return missing(typ, "UserId")
	}
	return nil
}

// FieldGetter is a message of a type of the program's own, whose fields have the names
// that they have on the wire.
type FieldGetter interface {
	// GetField returns the value of a field, and whether there is one.
	GetField(field string) (interface{}, bool)
}

// ValidateFields returns the error that Validate returns for the message of msg's "type",
// such as "track", with msg's fields. Fields that are no strings count as missing.
func ValidateFields(msg FieldGetter) error {
	text := func(field string) string {
		value, _ := msg.GetField(field)
		s, _ := value.(string)
		return s
	}
	user, anonymous := text("userId"), text("anonymousId")
	switch text("type") {
	case "alias":
		return Alias{UserId: user, PreviousId: text("previousId")}.Validate()
	case "group":
		return Group{UserId: user, AnonymousId: anonymous, GroupId: text("groupId")}.Validate()
	case "identify":
		return Identify{UserId: user, AnonymousId: anonymous}.Validate()
	case "page":
		return Page{UserId: user, AnonymousId: anonymous}.Validate()
	case "screen":
		return Screen{UserId: user, AnonymousId: anonymous}.Validate()
	case "track":
		return Track{UserId: user, AnonymousId: anonymous, Event: text("event")}.Validate()
	}
	kind, _ := msg.GetField("type")
	return FieldError{Type: "analytics.Event", Name: "Type", Value: kind}
}
