package expect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Call is one that came, be it taken or not.
type Call struct {
	tracking.Call               // of one that was not taken, what could be read of it
	Code          tracking.Code // why it was not taken; empty where it was
	Message       string        // the same in words

	decoded map[string]any // by value
}

// sourceMember and codeMember are what a call has beside the members of its body.
const (
	sourceMember = "source"
	codeMember   = "code"
)

func (c *Call) isBad() bool { return c.Code != "" }

// value returns the call's members. Of one that is no JSON they are those that could be
// read.
func (c *Call) value() map[string]any {
	if c.decoded != nil {
		return c.decoded
	}
	body, _ := jsondiff.Decode(c.Body) // what is no JSON has no members
	members, _ := body.(map[string]any)
	if members == nil {
		members = map[string]any{}
	}
	for f, name := range fields.Names {
		if text := fields.TextOf(&c.Call, fields.Field(f)); text != nil && *text != "" && members[name] == nil {
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

// title names the call in a line.
func (c *Call) title() string { return Title(&c.Call) }

// Title names a call in a line.
func Title(c *tracking.Call) string {
	var b strings.Builder
	b.WriteString(strings.Trim(strconv.Quote(c.Type), `"`)) // that of a bad call can be anything
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
