package copyas

import (
	"bytes"
	"cmp"
	"fmt"
	"go/format"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// module is the import path of the client.
const module = "github.com/seed-45eadc4a/analytics-go"

// Go returns a program that sends the call with the Go client, or "" if the client has no
// method for it.
func Go(to Collector, c *tracking.Call) string {
	if !IsTyped(c) {
		return ""
	}
	call := goCall(c)
	key, imports := strconv.Quote(to.WriteKey), ""
	if strings.Contains(call, "json.Number(") {
		imports += "\"encoding/json\"\n"
	}
	imports += "\"log\"\n"
	if to.WriteKey == "" {
		key = `os.Getenv("WRITE_KEY")`
		imports += "\"os\"\n"
	}
	return gofmt(fmt.Sprintf(`package main

import (
%s
analytics %q
)

func main() {
client := analytics.New(%s)
client.Endpoint = %q
%sif err := client.%s; err != nil {
log.Fatal(err)
}
if err := client.Close(); err != nil { // sends queued calls
log.Fatal(err)
}
}
`, imports, module, key, to.Endpoint, omitted(c), call))
}

// GoTest returns a test that expects the call, or "" if the client has no method for it. It
// expects the properties or traits and omits values that differ between calls.
func GoTest(c *tracking.Call) string {
	if !IsTyped(c) {
		return ""
	}
	want := string(sent(c, append(added, fields.Timestamp, fields.Context, fields.AnonymousID)...))
	return gofmt(fmt.Sprintf(`package main

import (
"testing"

analytics %q
"%s/mockserver"
)

func Test%s(t *testing.T) {
srv := mockserver.RunT(t)
client := analytics.New("any-key")
client.Endpoint = srv.URL

// Replace this comment with the code that makes the call with client.

if err := client.Close(); err != nil { // sends queued calls
t.Fatal(err)
}
srv.Expect(t, mockserver.Like(%s))
}
`, module, module, testName(c), text.GoString(want)))
}

// gofmt formats code. It returns invalid code unchanged.
func gofmt(code string) string {
	if out, err := format.Source([]byte(code)); err == nil {
		code = string(out)
	}
	return strings.TrimSpace(code)
}

// testName converts the name of the event to a Go identifier.
func testName(c *tracking.Call) string {
	var out strings.Builder
	upper := true
	for _, r := range cmp.Or(c.Event, c.Type+" "+c.Name) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			if upper {
				r = unicode.ToUpper(r)
			}
			out.WriteRune(r)
			upper = false
		default:
			upper = true
		}
		if out.Len() == 60 {
			break
		}
	}
	if out.Len() == 0 {
		return method(c) + "Call"
	}
	return out.String()
}

// goCall returns the code that calls the client's method.
func goCall(c *tracking.Call) string {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s(&analytics.%[1]s{\n", method(c))
	for _, v := range namedValues(c) {
		fmt.Fprintf(&out, "%s: %q,\n", upper(v[0]), v[1])
	}
	for _, f := range []struct {
		name  string
		field fields.Field
	}{{propertiesField(c.Type), fields.Describing(c.Type)}, {"Context", fields.Context}, {"Integrations", fields.Integrations}} {
		if value := member(c, f.field); value != nil && fields.TypeNamed(c.Type).Has(f.field) && value[0] == '{' {
			out.WriteString(f.name + ": ")
			goValue(&out, value)
			out.WriteString(",\n")
		}
	}
	if value := member(c, fields.Timestamp); value != nil {
		fmt.Fprintf(&out, "Message: analytics.Message{Timestamp: %q},\n", fields.Text(value))
	}
	out.WriteString("})")
	return out.String()
}

// propertiesField returns the name of the Go field for properties or traits.
func propertiesField(typ string) string {
	if typ == "page" {
		return "Traits" // the client sends them as properties
	}
	return upper(fields.Names[fields.Describing(typ)])
}
