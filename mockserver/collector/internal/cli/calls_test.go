package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestCallShowsWhyEachAttemptFailed checks that the result of an attempt does not depend on the
// reason or the other attempts, and that a short body is shown.
func TestCallShowsWhyEachAttemptFailed(t *testing.T) {
	const unavailable = "responded with 503 (Service Unavailable)"
	c := call{Type: "track", Event: "E", Body: []byte("{}"), Destinations: []callState{
		{Destination: "crm", State: "failed", Reason: "4 hours have passed; http://a: " + unavailable},
		{Destination: "ads", State: "failed", Reason: "http://b: refused (no)"},
		{Destination: "mail", State: "delivered"},
		{Destination: "sms", State: "failed", Reason: "http://c: responded with 400 (Bad Request): unknown number"},
	}}
	attempts := []export.Attempt{
		{Destination: "ads", Status: 400, Verdict: webhook.Permanent, Error: "responded with 400 (Bad Request)", ResponseBody: "no)\n"},
		{Destination: "mail", Verdict: webhook.Temporary, Error: "could not connect: refused"},
		{Destination: "mail", Status: 299, Verdict: webhook.Success, ResponseBody: "first\nsecond"},
	}
	attempts = append(attempts, export.Attempt{Destination: "sms", Status: 400, Verdict: webhook.Permanent, Error: "responded with 400 (Bad Request)", ResponseBody: "unknown number"})
	for range 5 {
		attempts = append(attempts, export.Attempt{Destination: "crm", Status: 503, Verdict: webhook.Temporary, Error: unavailable})
	}
	var out printer
	c.write(&out, attempts)
	head, table, found := strings.Cut(out.String(), "ATTEMPT  ")
	require.True(t, found, out.String())
	assert.Equal(t, 5, strings.Count(table, unavailable), table)
	assert.Contains(t, table, "responded with 400 (Bad Request): no)")
	assert.Contains(t, table, "could not connect: refused")
	assert.Equal(t, 1, strings.Count(head, "unknown number"), "the reason contains the body: %s", head)
	assert.Contains(t, table, "299: first")
	assert.Contains(t, head, "delivered  mail  299\n  first\n  second\n")
	assert.Equal(t, 2, strings.Count(head, "no)"), "the reason does not contain the body: %s", head)
}
