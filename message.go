package analytics

import (
	"log/slog"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

// Message contains the fields that all calls have. The client fills in empty fields, except
// SentAt.
type Message struct {
	// Type is the kind of the call in the JSON. The client sets it and ignores a value set by
	// the caller.
	Type string `json:"type,omitempty"`

	// MessageId identifies the call. Retries keep the ID, and collectors use it to remove
	// duplicates. Defaults to a new UUID, version 7.
	MessageId string `json:"messageId,omitempty"`

	// Timestamp is the time of the event in ISO 8601. The client converts it to UTC and
	// truncates it to milliseconds. A time without an offset is in UTC. Defaults to the
	// time of the call.
	Timestamp string `json:"timestamp,omitempty"`

	// SentAt is usually empty, because the client sets sentAt for the batch at each attempt.
	// If a call has its own SentAt, in ISO 8601, the collector uses it instead.
	SentAt string `json:"sentAt,omitempty"`
}

// Identify sets the traits of a user. Either UserId or AnonymousId is required.
type Identify struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`

	// Attrs contains traits as attributes. See Attributes in the package documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the traits of a generated type. It cannot be combined with Traits or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Group adds a user to a group, such as a company or a team. GroupId is required, and so is
// either UserId or AnonymousId.
type Group struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	GroupId      string                 `json:"groupId"`

	// Attrs contains traits as attributes. See Attributes in the package documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the traits of a generated type. It cannot be combined with Traits or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Track records an event of a user. Event is required, and so is either UserId or
// AnonymousId.
type Track struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Event        string                 `json:"event"`

	// Attrs contains properties as attributes. See Attributes in the package documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the properties of a generated type. It cannot be combined with Properties or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Page records a view of a web page. Either UserId or AnonymousId is required. The client
// sends Traits as properties; destinations recognize the properties url, title, referrer
// and path.
type Page struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Category     string                 `json:"category,omitempty"`
	Name         string                 `json:"name,omitempty"`

	// Attrs contains traits as attributes. See Attributes in the package documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the traits of a generated type. It cannot be combined with Traits or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Screen records a view of an app screen. Either UserId or AnonymousId is required.
type Screen struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Category     string                 `json:"category,omitempty"`
	Name         string                 `json:"name,omitempty"`

	// Attrs contains properties as attributes. See Attributes in the package documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the properties of a generated type. It cannot be combined with Properties or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Alias links PreviousId to UserId, which is the user's new ID. Both are required.
type Alias struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	PreviousId   string                 `json:"previousId"`
	UserId       string                 `json:"userId"`
	Message
}

// Batch is the format of a request body. Collectors and tests can use it to decode a
// request. The client does not use it.
type Batch struct {
	Context  map[string]interface{} `json:"context,omitempty"`
	Messages []interface{}          `json:"batch"`
	Message
}

// Call is one of *Identify, *Track, *Page, *Screen, *Group and *Alias.
type Call interface {
	// call converts the message to the common format. It returns an error if the message is
	// nil or a required field is missing.
	call() (call, error)
}

// kind is the kind of a call. It is a number because storing a string would make the message
// escape to the heap.
type kind uint8

const (
	kindNone kind = iota // the kind of a nil Call
	kindAlias
	kindGroup
	kindIdentify
	kindPage
	kindScreen
	kindTrack
)

var kindNames = [...]string{"call", "alias", "group", "identify", "page", "screen", "track"}

// String returns the JSON name of the kind.
func (k kind) String() string { return kindNames[k] }

// call is the common format of the message structs. It refers to the caller's maps, so
// it must not be used after the client's method has returned.
type call struct {
	kind         kind
	context      map[string]interface{}
	integrations map[string]interface{}
	props        map[string]interface{} // the traits or properties
	attrs        []slog.Attr
	write        func(*typed.Object)
	propsName    *mapName // traitsName or propertiesName
	name         string   // the name of the event, page or screen; calls with the same name usually have the same keys in props
	anonymousID  string
	userID       string
	extra        [2]extra
	idAt         int                  // the position of a generated message ID in the JSON, set by append
	defaults     *defaultIntegrations // nil if Config.Integrations is empty
	Message
}

// mapName is the name of a map field, with values that are derived from it.
type mapName struct {
	name string
	key  string // the quoted name and a colon
	at   wire.PathHash
}

func newMapName(name string) *mapName {
	return &mapName{name: name, key: `"` + name + `":`, at: wire.HashPath(name)}
}

var (
	contextName      = newMapName("context")
	integrationsName = newMapName("integrations")
	traitsName       = newMapName("traits")
	propertiesName   = newMapName("properties")
)

// extra is a string field that only some kinds of calls have. key is the quoted name and a
// colon.
type extra struct{ key, value string }

func (m *Identify) call() (call, error) {
	if m == nil {
		return call{}, missing(kindIdentify, fieldMessage)
	}
	return call{
		kind: kindIdentify, context: m.Context, integrations: m.Integrations,
		props: m.Traits, attrs: m.Attrs, write: m.Write, propsName: traitsName,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
	}, checkIDs(kindIdentify, m.AnonymousId, m.UserId)
}

func (m *Group) call() (call, error) {
	switch {
	case m == nil:
		return call{}, missing(kindGroup, fieldMessage)
	case m.GroupId == "":
		return call{}, missing(kindGroup, "groupId")
	}
	return call{
		kind: kindGroup, context: m.Context, integrations: m.Integrations,
		props: m.Traits, attrs: m.Attrs, write: m.Write, propsName: traitsName,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"groupId":`, m.GroupId}},
	}, checkIDs(kindGroup, m.AnonymousId, m.UserId)
}

func (m *Track) call() (call, error) {
	switch {
	case m == nil:
		return call{}, missing(kindTrack, fieldMessage)
	case m.Event == "":
		return call{}, missing(kindTrack, "event")
	}
	return call{
		kind: kindTrack, context: m.Context, integrations: m.Integrations,
		props: m.Properties, attrs: m.Attrs, write: m.Write, propsName: propertiesName, name: m.Event,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"event":`, m.Event}},
	}, checkIDs(kindTrack, m.AnonymousId, m.UserId)
}

func (m *Page) call() (call, error) {
	if m == nil {
		return call{}, missing(kindPage, fieldMessage)
	}
	return call{
		kind: kindPage, context: m.Context, integrations: m.Integrations,
		props: m.Traits, attrs: m.Attrs, write: m.Write, propsName: propertiesName, name: m.Name,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"category":`, m.Category}, {`"name":`, m.Name}},
	}, checkIDs(kindPage, m.AnonymousId, m.UserId)
}

func (m *Screen) call() (call, error) {
	if m == nil {
		return call{}, missing(kindScreen, fieldMessage)
	}
	return call{
		kind: kindScreen, context: m.Context, integrations: m.Integrations,
		props: m.Properties, attrs: m.Attrs, write: m.Write, propsName: propertiesName, name: m.Name,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"category":`, m.Category}, {`"name":`, m.Name}},
	}, checkIDs(kindScreen, m.AnonymousId, m.UserId)
}

func (m *Alias) call() (call, error) {
	switch {
	case m == nil:
		return call{}, missing(kindAlias, fieldMessage)
	case m.UserId == "":
		return call{}, missing(kindAlias, "userId")
	case m.PreviousId == "":
		return call{}, missing(kindAlias, "previousId")
	}
	return call{
		kind: kindAlias, context: m.Context, integrations: m.Integrations,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"previousId":`, m.PreviousId}},
	}, nil
}

func checkIDs(kind kind, anonymousID, userID string) error {
	if anonymousID == "" && userID == "" {
		return missing(kind, fieldIDs)
	}
	return nil
}

// append appends the call as one JSON object and omits empty fields. milli is the time of
// the call in milliseconds since 1970.
func (k *call) append(dst []byte, milli int64) ([]byte, error) {
	var err error
	dst = append(dst, '{')
	if dst, err = k.appendMap(dst, contextName, "", k.context); err != nil {
		return dst, err
	}
	if dst, err = k.appendMap(dst, integrationsName, "", k.integrations); err != nil {
		return dst, err
	}
	if k.defaults != nil {
		dst = k.defaults.complete(dst, k.integrations)
	}
	if dst, err = k.appendProps(dst); err != nil {
		return dst, err
	}
	dst = appendField(dst, `"anonymousId":`, k.anonymousID)
	dst = appendField(dst, `"userId":`, k.userID)
	for i := range k.extra {
		dst = appendField(dst, k.extra[i].key, k.extra[i].value)
	}
	return k.appendMessage(dst, milli)
}

// appendMap appends a map field and a comma. It appends nothing if the map is empty. name is
// the name of the event, page or screen, or empty if the keys of the map do not depend on it.
func (k *call) appendMap(dst []byte, n *mapName, name string, m map[string]interface{}) ([]byte, error) {
	if len(m) == 0 {
		return dst, nil
	}
	dst, err := wire.AppendMapAt(append(dst, n.key...), m, n.name, n.at.In(name))
	if err != nil {
		return dst, valueFieldError(k.kind, n.name, err)
	}
	return append(dst, ','), nil
}

// appendProps appends the traits or properties and a comma. It appends nothing if they are
// empty.
func (k *call) appendProps(dst []byte) (out []byte, err error) {
	n := k.propsName
	switch {
	case k.write != nil && len(k.props)+len(k.attrs) > 0:
		err = errWriteAlone
	case k.write != nil:
		out, err = typed.Append(append(dst, n.key...), n.name, k.write)
	case len(k.attrs) > 0:
		out, err = wire.AppendAttrs(append(dst, n.key...), k.props, k.attrs, n.name, n.at.In(k.name))
	default:
		return k.appendMap(dst, n, k.name, k.props)
	}
	switch {
	case err != nil:
		return dst, valueFieldError(k.kind, n.name, err)
	case len(out) == len(dst)+len(n.key)+len("{}"):
		return dst, nil
	}
	return append(out, ','), nil
}

// messageHeads contains the JSON text before the message ID, indexed by kind.
var messageHeads = func() (heads [len(kindNames)]string) {
	for i, name := range kindNames {
		heads[i] = `"type":"` + name + `","messageId":`
	}
	return heads
}()

// appendMessage appends the fields of Message and the closing bracket. It sets idAt.
func (k *call) appendMessage(dst []byte, milli int64) ([]byte, error) {
	var err error
	dst = append(dst, messageHeads[k.kind]...)
	k.idAt = len(dst) + len(`"`)
	if k.MessageId == "" && k.Timestamp == "" {
		dst = wire.AppendStamp(dst, milli)
	} else if dst, err = k.appendStamp(dst, milli); err != nil {
		return dst, err
	}
	if k.SentAt != "" {
		dst = append(dst, `,"sentAt":"`...)
		if dst, err = wire.AppendISO8601(dst, k.SentAt); err != nil {
			return dst, &FieldError{Kind: k.kind.String(), Field: "sentAt", Err: err}
		}
		dst = append(dst, '"')
	}
	return append(dst, '}'), nil
}

// appendStamp appends the same fields as wire.AppendStamp. It is used if the call sets its
// MessageId or Timestamp.
func (k *call) appendStamp(dst []byte, milli int64) ([]byte, error) {
	if k.MessageId != "" {
		dst = wire.AppendString(dst, k.MessageId)
	} else {
		dst = append(wire.AppendIDAt(append(dst, '"'), milli), '"')
	}
	dst = append(dst, wire.TimestampKey...)
	if k.Timestamp == "" {
		return append(wire.AppendNow(dst, milli), '"'), nil
	}
	dst, err := wire.AppendISO8601(dst, k.Timestamp)
	if err != nil {
		return dst, &FieldError{Kind: k.kind.String(), Field: "timestamp", Err: err}
	}
	return append(dst, '"'), nil
}

// id returns the message ID of a call. encoded is the output of append.
func (k *call) id(encoded []byte) string {
	if k.MessageId != "" {
		return strings.Clone(k.MessageId) // a copy, because the ID may be part of a larger string
	}
	return string(encoded[k.idAt : k.idAt+wire.IDLen])
}

// appendField appends a string field and a comma. It appends nothing if the value is
// empty. key is the quoted name and a colon.
func appendField(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	return append(wire.AppendString(append(dst, key...), value), ',')
}
