package analytics

import (
	"log/slog"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

// Message holds the fields that every call has. It is embedded last in each
// message struct; leave it zero and the client fills in what belongs there.
type Message struct {
	// Type is the kind of the call on the wire. The client sets it by the
	// method that was called; a value given here is ignored.
	Type string `json:"type,omitempty"`

	// MessageId names the call for good: every retry carries it, and the
	// collector drops repeats by it. Defaults to a fresh UUID, version 7.
	MessageId string `json:"messageId,omitempty"`

	// Timestamp is when the event happened, as an ISO 8601 time. It goes on
	// the wire in UTC with milliseconds; finer digits are cut off, and a time
	// without an offset is taken as UTC. Defaults to the moment of the call.
	Timestamp string `json:"timestamp,omitempty"`

	// SentAt is best left empty: the client stamps each batch at every
	// attempt to send it, and a value given here, an ISO 8601 time, takes
	// precedence over that stamp at the collector.
	SentAt string `json:"sentAt,omitempty"`
}

// Identify ties a user to traits. It needs a UserId or an AnonymousId.
type Identify struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`

	// Attrs are traits too, without a map: see Attributes in the package's documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the traits of a generated event. It is an error beside a map or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Group ties a user to a group: a company, an account, a team. It needs a
// GroupId, and a UserId or an AnonymousId.
type Group struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	GroupId      string                 `json:"groupId"`

	// Attrs are traits too, without a map: see Attributes in the package's documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the traits of a generated event. It is an error beside a map or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Track records something that a user did. It needs an Event, and a UserId or
// an AnonymousId.
type Track struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Event        string                 `json:"event"`

	// Attrs are properties too, without a map: see Attributes in the package's documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the properties of a generated event. It is an error beside a map or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Page records that a user saw a page of a website. It needs a UserId or an
// AnonymousId. Traits go on the wire as properties; url, title, referrer and
// path are those that destinations know.
type Page struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Category     string                 `json:"category,omitempty"`
	Name         string                 `json:"name,omitempty"`

	// Attrs are traits too, without a map: see Attributes in the package's documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the traits of a generated event. It is an error beside a map or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Screen records that a user saw a screen of an app. It needs a UserId or an
// AnonymousId.
type Screen struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Category     string                 `json:"category,omitempty"`
	Name         string                 `json:"name,omitempty"`

	// Attrs are properties too, without a map: see Attributes in the package's documentation.
	Attrs []slog.Attr `json:"-"`

	// Write writes the properties of a generated event. It is an error beside a map or Attrs.
	Write func(*typed.Object) `json:"-"`
	Message
}

// Alias says that the user known as PreviousId is now known as UserId. It
// needs both.
type Alias struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	PreviousId   string                 `json:"previousId"`
	UserId       string                 `json:"userId"`
	Message
}

// Batch is the form of the request body: what a collector, or a test of one,
// decodes. The client itself does not build it.
type Batch struct {
	Context  map[string]interface{} `json:"context,omitempty"`
	Messages []interface{}          `json:"batch"`
	Message
}

// Call is one of *Identify, *Track, *Page, *Screen, *Group and *Alias.
type Call interface {
	// check returns why the call is invalid. It is safe on a nil pointer.
	check() error

	// wire returns the common form of a call that is valid.
	wire() call
}

// call is the common form of the six message structs, validated. It refers to the
// caller's maps until the method returns, and no longer.
type call struct {
	kind         kind
	context      map[string]interface{}
	integrations map[string]interface{}
	bag          map[string]interface{}
	attrs        []slog.Attr
	write        func(*typed.Object)
	bagName      *mapName // traitsName or propertiesName
	sort         string   // the event or name: calls that share it tend to share the keys of the bag
	anonymousID  string
	userID       string
	extra        [2]extra
	idAt         int                  // where append wrote a fresh message id
	defaults     *defaultIntegrations // nil if there are none
	Message
}

// mapName is the name of one of the maps of a call, with what is computed once.
type mapName struct {
	name string
	key  string // as JSON, with its colon
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

// extra is a string field that only some kinds have. Its key is as JSON, with
// its colon.
type extra struct{ key, value string }

func (m *Identify) check() error {
	if m == nil {
		return missing(kindIdentify, fieldMessage)
	}
	return checkIDs(kindIdentify, m.AnonymousId, m.UserId)
}

func (m *Identify) wire() call {
	return call{
		kind: kindIdentify, context: m.Context, integrations: m.Integrations,
		bag: m.Traits, attrs: m.Attrs, write: m.Write, bagName: traitsName,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
	}
}

func (m *Group) check() error {
	switch {
	case m == nil:
		return missing(kindGroup, fieldMessage)
	case m.GroupId == "":
		return missing(kindGroup, "groupId")
	}
	return checkIDs(kindGroup, m.AnonymousId, m.UserId)
}

func (m *Group) wire() call {
	return call{
		kind: kindGroup, context: m.Context, integrations: m.Integrations,
		bag: m.Traits, attrs: m.Attrs, write: m.Write, bagName: traitsName,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"groupId":`, m.GroupId}},
	}
}

func (m *Track) check() error {
	switch {
	case m == nil:
		return missing(kindTrack, fieldMessage)
	case m.Event == "":
		return missing(kindTrack, "event")
	}
	return checkIDs(kindTrack, m.AnonymousId, m.UserId)
}

func (m *Track) wire() call {
	return call{
		kind: kindTrack, context: m.Context, integrations: m.Integrations,
		bag: m.Properties, attrs: m.Attrs, write: m.Write, bagName: propertiesName, sort: m.Event,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"event":`, m.Event}},
	}
}

func (m *Page) check() error {
	if m == nil {
		return missing(kindPage, fieldMessage)
	}
	return checkIDs(kindPage, m.AnonymousId, m.UserId)
}

func (m *Page) wire() call {
	return call{
		kind: kindPage, context: m.Context, integrations: m.Integrations,
		bag: m.Traits, attrs: m.Attrs, write: m.Write, bagName: propertiesName, sort: m.Name,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"category":`, m.Category}, {`"name":`, m.Name}},
	}
}

func (m *Screen) check() error {
	if m == nil {
		return missing(kindScreen, fieldMessage)
	}
	return checkIDs(kindScreen, m.AnonymousId, m.UserId)
}

func (m *Screen) wire() call {
	return call{
		kind: kindScreen, context: m.Context, integrations: m.Integrations,
		bag: m.Properties, attrs: m.Attrs, write: m.Write, bagName: propertiesName, sort: m.Name,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"category":`, m.Category}, {`"name":`, m.Name}},
	}
}

func (m *Alias) check() error {
	switch {
	case m == nil:
		return missing(kindAlias, fieldMessage)
	case m.UserId == "":
		return missing(kindAlias, "userId")
	case m.PreviousId == "":
		return missing(kindAlias, "previousId")
	}
	return nil
}

func (m *Alias) wire() call {
	return call{
		kind: kindAlias, context: m.Context, integrations: m.Integrations,
		anonymousID: m.AnonymousId, userID: m.UserId, Message: m.Message,
		extra: [2]extra{{`"previousId":`, m.PreviousId}},
	}
}

func checkIDs(kind kind, anonymousID, userID string) error {
	if anonymousID == "" && userID == "" {
		return missing(kind, fieldIDs)
	}
	return nil
}

// append writes the call as one JSON object, without the fields that are empty. Milli is
// the time of the call in milliseconds since 1970.
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
	if dst, err = k.appendBag(dst); err != nil {
		return dst, err
	}
	dst = appendField(dst, `"anonymousId":`, k.anonymousID)
	dst = appendField(dst, `"userId":`, k.userID)
	for i := range k.extra {
		dst = appendField(dst, k.extra[i].key, k.extra[i].value)
	}
	return k.appendMessage(dst, milli)
}

// appendMap writes a map field and its comma, or nothing if it is empty.
func (k *call) appendMap(dst []byte, n *mapName, sort string, m map[string]interface{}) ([]byte, error) {
	if len(m) == 0 {
		return dst, nil
	}
	dst, err := wire.AppendMapAt(append(dst, n.key...), m, n.name, n.at.In(sort))
	if err != nil {
		return dst, valueFieldError(k.kind, n.name, err)
	}
	return append(dst, ','), nil
}

// appendBag writes the traits or properties, of whichever form they are, as appendMap does.
func (k *call) appendBag(dst []byte) (out []byte, err error) {
	n := k.bagName
	switch {
	case k.write != nil && len(k.bag)+len(k.attrs) > 0:
		err = errWriteAlone
	case k.write != nil:
		out, err = typed.Append(append(dst, n.key...), n.name, k.write)
		if len(out) == len(dst)+len(n.key)+len("{}") {
			return dst, nil
		}
	case len(k.attrs) > 0:
		out, err = wire.AppendAttrs(append(dst, n.key...), k.bag, k.attrs, n.name, n.at.In(k.sort))
	default:
		return k.appendMap(dst, n, k.sort, k.bag)
	}
	if err != nil {
		return dst, valueFieldError(k.kind, n.name, err)
	}
	return append(out, ','), nil
}

// messageHeads is what comes before the message id of a call, by its kind.
var messageHeads = func() (heads [len(kindNames)]string) {
	for i, name := range kindNames {
		heads[i] = `"type":"` + name + `","messageId":`
	}
	return heads
}()

// appendMessage writes the fields of the embedded Message, which end the call, and
// remembers where the message id is.
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

// appendStamp is wire.AppendStamp for a call with an id or a time of its own.
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

// id returns the message id of a call that append has written to encoded.
func (k *call) id(encoded []byte) string {
	if k.MessageId != "" {
		return strings.Clone(k.MessageId) // it may be a part of a larger string
	}
	return string(encoded[k.idAt : k.idAt+wire.IDLen])
}

// appendField writes a string field and its comma, or nothing if it is empty.
// The key is as JSON, with its colon.
func appendField(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	return append(wire.AppendString(append(dst, key...), value), ',')
}
