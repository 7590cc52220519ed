package analytics

import "time"

// Message is an Alias, Group, Identify, Page, Screen or Track, or a pointer to one. Clients
// refuse other types.
type Message interface {
	// Validate returns a FieldError if a required field is missing.
	Validate() error
}

// Alias links PreviousId to UserId. Both are required.
type Alias struct {
	// Type is set by the client in the JSON and for callbacks. The client ignores the value
	// that the caller sets. The same applies to the other messages.
	Type string `json:"type,omitempty"`

	// MessageId identifies the message in all retries, so that collectors can drop
	// duplicates. Defaults to a new UUID.
	MessageId  string `json:"messageId,omitempty"`
	PreviousId string `json:"previousId"`
	UserId     string `json:"userId"`

	// Timestamp is the time of the event, sent in UTC with milliseconds. Defaults to the
	// time of Enqueue.
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

// Group adds a user to a group. It requires a GroupId, and a UserId or AnonymousId.
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

// Validate returns a FieldError if GroupId is missing, or both UserId and AnonymousId are.
func (msg Group) Validate() error {
	if msg.GroupId == "" {
		return missing("analytics.Group", "GroupId")
	}
	return checkIDs("analytics.Group", msg.UserId, msg.AnonymousId)
}

// Identify sets the traits of a user. It requires a UserId or AnonymousId.
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

// Page records a view of a web page. It requires a UserId or AnonymousId.
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

// Screen records a view of an app's screen. It requires a UserId or AnonymousId.
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

// Track records an event. It requires an Event, and a UserId or AnonymousId.
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

// Validate returns a FieldError if Event is missing, or both UserId and AnonymousId are.
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

// FieldGetter is a custom message. Its fields are accessed by their JSON names.
type FieldGetter interface {
	// GetField returns the value of a field, and whether it exists.
	GetField(field string) (interface{}, bool)
}

// ValidateFields validates a custom message. Its field "type" contains the type of the message,
// such as "track". A field that is not a string counts as missing.
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
