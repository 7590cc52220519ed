package copyas

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Curl returns a command that sends the call to the collector again. If the type of the call is
// unknown, the command sends it in a batch.
func Curl(to Collector, c *tracking.Call) string {
	path, body := "/v1/"+c.Type, sent(c, added...)
	if method(c) == "" {
		path, body = "/v1/batch", slices.Concat([]byte(`{"batch":[`), body, []byte("]}"))
	}
	key := `"$WRITE_KEY:"`
	if to.WriteKey != "" {
		key = Shell(to.WriteKey + ":")
	}
	return fmt.Sprintf("curl -g -u %s %s \\\n  -H 'Content-Type: application/json' \\\n  --data-raw %s", key, Shell(to.Endpoint+path), Shell(string(body)))
}

// SignedCurl returns a command that sends the call to a webhook with a signature. The command reads
// configured headers from environment variables if hidden returns true for them. The error explains
// why the destination does not receive the call.
func SignedCurl(settings *webhook.Settings, transform webhook.Transform, endpoint webhook.Endpoint, c *tracking.Call, now time.Time, hidden func(header string) bool) (string, error) {
	r, err := sender.NewCallRequest(settings, sender.Content{ID: c.ID, Body: c.Body, Number: 1, At: now, Transform: transform})
	if err != nil {
		return "", err
	}
	r.Endpoint = endpoint
	header, err := r.Header()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	static := map[string]bool{}
	for name := range endpoint.Headers {
		static[http.CanonicalHeaderKey(name)] = true
	}
	if r.Signature != "" || r.Standard != "" {
		out.WriteString("# Contains a valid signature. Keep it secret.\n")
	}
	if r.Standard != "" {
		out.WriteString("# Receivers reject its Webhook-Signature after five minutes.\n")
	}
	fmt.Fprintf(&out, "curl -g %s \\\n", Shell(endpoint.URL))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		value := header.Get(name)
		word := Shell(name + ": " + value)
		switch {
		case static[name] && hidden(name):
			word = fmt.Sprintf(`%s"$%s"`, Shell(name+": "), variable(name))
		case value == "":
			word = Shell(name + ";") // curl syntax for a header without a value
		}
		fmt.Fprintf(&out, "  -H %s \\\n", word)
	}
	fmt.Fprintf(&out, "  --data-raw %s", Shell(string(r.Body)))
	return out.String(), nil
}

// variable returns the name of the environment variable for a header.
func variable(header string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(header))
	if name[0] <= '9' {
		return "_" + name // otherwise $1 would be an argument
	}
	return name
}
