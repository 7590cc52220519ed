package tracking

import (
	"bytes"
	"encoding/json"
	"time"
)

// A Call is one analytics call as the collector stores it. The fields are a
// reading of Body, which is what counts.
type Call struct {
	ID     string // the messageId: the sender's, or one that the collector made
	Source string // the name of the source whose write key came with it
	Type   string // identify, track, page, screen, group, alias or delete

	UserID      string
	AnonymousID string
	Event       string // track
	Name        string // page and screen
	Category    string // page and screen
	GroupID     string // group
	PreviousID  string // alias

	ReceivedAt        time.Time // when the collector took it
	SentAt            time.Time // the sender's clock when it sent; zero if it did not say
	OriginalTimestamp time.Time // the sender's clock when it happened; zero if it did not say
	Timestamp         time.Time // when it happened, corrected by the difference between the two clocks

	// Body is the call as received, one JSON object, with the context and the
	// integrations of its batch beneath its own, and with messageId, receivedAt,
	// sentAt, originalTimestamp and the corrected timestamp. Numbers keep their
	// digits. It must not be changed.
	Body json.RawMessage
}

// Properties decodes the call's properties, or returns nil where it has none.
// Numbers are json.Number, so that they keep their digits.
func (c Call) Properties() map[string]any { return c.object("properties") }

// Traits decodes the call's traits, as Properties does.
func (c Call) Traits() map[string]any { return c.object("traits") }

// Context decodes the call's context, as Properties does.
func (c Call) Context() map[string]any { return c.object("context") }

// Integrations decodes the call's integrations, as Properties does.
func (c Call) Integrations() map[string]any { return c.object("integrations") }

// object decodes one member of Body.
func (c Call) object(name string) map[string]any {
	var members map[string]json.RawMessage
	if json.Unmarshal(c.Body, &members) != nil || len(members[name]) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(members[name]))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) != nil {
		return nil
	}
	return object
}
