package copyas

import (
	"fmt"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Node returns a module that sends the call with the Node library of the service, or "" if
// the library has no method for it.
func Node(to Collector, c *tracking.Call) string {
	if !IsTyped(c) || fields.TypeNamed(c.Type).Short == "" {
		return ""
	}
	key := "process.env.WRITE_KEY"
	if to.WriteKey != "" {
		key = Quoted(to.WriteKey)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "import { Analytics } from '@segment/analytics-node'\n\nconst analytics = new Analytics({\n  writeKey: %s,\n  host: %s,\n})\n\n", key, Quoted(to.Endpoint))
	out.WriteString(omitted(c))
	if losesDigits(c.Body) {
		out.WriteString("// A number here has more digits than JavaScript can store.\n")
	}
	fmt.Fprintf(&out, "analytics.%s({\n", c.Type)
	for _, v := range namedValues(c) {
		fmt.Fprintf(&out, "  %s: %s,\n", v[0], Quoted(v[1]))
	}
	for _, field := range []fields.Field{fields.Describing(c.Type), fields.Context, fields.Integrations} {
		if value := member(c, field); value != nil && value[0] == '{' && fields.TypeNamed(c.Type).Has(field) {
			fmt.Fprintf(&out, "  %s: %s,\n", fields.Names[field], jsValue(value, "  "))
		}
	}
	if value := member(c, fields.Timestamp); value != nil {
		fmt.Fprintf(&out, "  timestamp: new Date(%s),\n", Quoted(fields.Text(value)))
	}
	out.WriteString("})\n\nawait analytics.closeAndFlush() // sends queued calls")
	return out.String()
}
