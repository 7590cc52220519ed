package expect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Call is an accepted or rejected call.
type Call struct {
	tracking.Call               // contains only the readable fields of a rejected call
	Code          tracking.Code // reason for the rejection; empty for an accepted call
	Message       string        // the error message

	decoded map[string]any // cached result of value
}

// Fields that can be expected in addition to the fields of the body.
const (
	sourceMember = "source"
	codeMember   = "code"
)

func (c *Call) isBad() bool { return c.Code != "" }

// value returns the fields of the call. If the JSON is invalid, it returns only the readable fields.
func (c *Call) value() map[string]any {
	if c.decoded != nil {
		return c.decoded
	}
	body, _ := jsondiff.Decode(c.Body) // invalid JSON has no fields
	members, _ := body.(map[string]any)
	if members == nil {
		members = map[string]any{}
	}
	for f, name := range fields.Names {
		if text := event.TextOf(&c.Call, fields.Field(f)); text != nil && *text != "" && members[name] == nil {
			members[name] = *text
		}
	}
	members[sourceMember] = c.Source
	if c.isBad() {
		members[codeMember] = string(c.Code)
	}
	c.decoded = members
	return members
}

func (c *Call) title() string { return Title(&c.Call) }

// Title describes a call in one line.
func Title(c *tracking.Call) string {
	var b strings.Builder
	b.WriteString(strings.Trim(strconv.Quote(c.Type), `"`)) // quoted, because the type of a rejected call can be any string
	for _, part := range []struct{ name, value string }{
		{"", c.Event}, {"", c.Name}, {"userId", c.UserID}, {"anonymousId", c.AnonymousID}, {"groupId", c.GroupID},
		{"previousId", c.PreviousID}, {"messageId", c.ID},
	} {
		if part.value == "" {
			continue
		}
		b.WriteByte(' ')
		if part.name != "" {
			b.WriteString(part.name + "=")
		}
		fmt.Fprintf(&b, "%.60q", part.value)
	}
	return b.String()
}
