package tracking

import (
	"bytes"
	"encoding/json"
	"time"
)

// A Call is one analytics call as the collector stores it. The fields are a
// reading of Body, which is what counts.
type Call struct {
	ID     string `json:"messageId"` // the messageId: the sender's, or one that the collector made
	Source string `json:"source"`    // the name of the source whose write key came with it
	Type   string `json:"type"`      // identify, track, page, screen, group, alias or delete

	UserID      string `json:"userId,omitempty"`
	AnonymousID string `json:"anonymousId,omitempty"`
	Event       string `json:"event,omitempty"`      // track
	Name        string `json:"name,omitempty"`       // page and screen
	Category    string `json:"category,omitempty"`   // page and screen
	GroupID     string `json:"groupId,omitempty"`    // group
	PreviousID  string `json:"previousId,omitempty"` // alias

	ReceivedAt        time.Time `json:"receivedAt"`                 // when the collector took it
	SentAt            time.Time `json:"sentAt,omitzero"`            // the sender's clock when it sent; zero if it did not say
	OriginalTimestamp time.Time `json:"originalTimestamp,omitzero"` // the sender's clock when it happened; zero if it did not say
	Timestamp         time.Time `json:"timestamp"`                  // when it happened, corrected by the difference between the two clocks

	// Violations are how the call was not as the tracking plan of its source says when it
	// came, at most 20. Only the command collector has plans.
	Violations []Violation `json:"violations,omitempty"`

	// Body is the call as received, one JSON object, with the context and the
	// integrations of its batch beneath its own, and with messageId, receivedAt,
	// sentAt, originalTimestamp and the corrected timestamp. Numbers keep their
	// digits. It must not be changed.
	Body json.RawMessage `json:"body,omitempty"`
}

// A Violation is one way in which a call is not as the tracking plan of its source says.
type Violation struct {
	Kind    string `json:"kind"`              // as in missing property
	Event   string `json:"event,omitempty"`   // the entry of the plan: an event, the name of a page, or a type; empty where there is none
	Pointer string `json:"pointer,omitempty"` // a JSON pointer to what is wrong, as in /properties/total
	Message string `json:"message"`           // what is wrong, and what the plan says, in one sentence
	Plan    string `json:"plan"`              // the name of the plan, or else of its file
	Line    int    `json:"line,omitempty"`    // in the plan's file, from 1; 0 where none is at fault
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
