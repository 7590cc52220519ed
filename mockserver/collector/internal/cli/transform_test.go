package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

const (
	chatConfig = `data: data
redactKey: a key of this test
sources: [{name: web, writeKey: a-write-key}]
destinations:
  - name: chat
    sources: [web]
    events: {deny: [Tested]}
    redact: {remove: [properties.card]}
    transform: '{text: "\(.userId) paid \(.properties.total + 1)", card: .properties.card}'
    webhooks: [{url: https://example.com/hook}]
`
	paidCall   = `{"type":"track","event":"Paid","userId":"u","messageId":"1","timestamp":"2026-01-01T00:00:00Z","properties":{"total":5,"card":4111}}` + "\n"
	testedCall = `{"type":"track","event":"Tested","userId":"u","messageId":"2","timestamp":"2026-01-01T00:00:00Z"}` + "\n"
	failedCall = `{"type":"track","event":"Paid","userId":"u","messageId":"3","timestamp":"2026-01-01T00:00:00Z","properties":{"total":"five"}}` + "\n"
)

func TestTransformTest(t *testing.T) {
	inDirectory(t, map[string]string{"c.yaml": chatConfig, "invalid.yaml": "destinations: 1"})
	for name, test := range map[string]struct {
		in, out, errOut string
		args            []string
		code            int
	}{
		"a destination":          {paidCall + testedCall, `{"card":null,"text":"u paid 6"}` + "\n", "standard input:2: filtered: its event matches events.deny\n2 calls: 1 printed, 1 filtered, 0 failed\n", []string{"--config", "c.yaml", "--destination", "chat"}, 0},
		"a failed call":          {failedCall, "", "standard input:1: failed: transform: cannot add: string (\"five\") and number (1)\n1 call: 0 printed, 0 filtered, 1 failed\n", []string{"--config", "c.yaml", "--destination", "chat"}, 1},
		"a program":              {"[" + paidCall + "," + testedCall + "]", "\"1\"\n\"2\"\n", "2 calls: 2 printed, 0 filtered, 0 failed\n", []string{"--program", ".messageId"}, 0},
		"another program":        {paidCall, "{}\n", "1 call: 1 printed, 0 filtered, 0 failed\n", []string{"--config", "c.yaml", "--destination", "chat", "--program", "{}"}, 0},
		"no call":                {"[1]", "", "standard input, call 1: failed: the call is not a JSON object\n1 call: 0 printed, 0 filtered, 1 failed\n", []string{"--program", "."}, 1},
		"no calls":               {"", "", "collector: no calls: specify files, or use --collector\n", []string{"--program", "."}, 1},
		"an invalid program":     {paidCall, "", "collector: --program: is not a valid program: unexpected end of the program: fix the program; see docs/webhooks.md\n", []string{"--program", "{a:"}, 2},
		"no destination":         {paidCall, "", "collector: specify both --config and --destination, or --program alone\n", []string{"--config", "c.yaml"}, 2},
		"nothing to try":         {paidCall, "", "collector: specify --config and --destination, or --program\n", nil, 2},
		"an unknown destination": {paidCall, "", "collector: --destination: the configuration has no destination \"crm\"\n", []string{"--config", "c.yaml", "--destination", "crm"}, 2},
		"an invalid file":        {paidCall, "", "invalid.yaml:1:15: destinations must be a list, not a single value: start each item with a hyphen\n", []string{"--config", "invalid.yaml", "--destination", "crm"}, 2},
	} {
		out, errOut, code := runWith(t, test.in, append([]string{"transform", "test"}, test.args...)...)
		assert.Equal(t, test.code, code, name)
		assert.Equal(t, test.out, out, name)
		assert.Equal(t, test.errOut, errOut, name)
	}
}

func TestTransformTestReadsFromCollector(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{AnyWriteKey: true})
	t.Setenv("COLLECTOR_URL", srv.URL)
	_, errOut, code := run(t, "send", "track", "--event", "Paid", "--user-id", "u")
	require.Zero(t, code, errOut)
	_, err := srv.Wait(t.Context(), 1)
	require.NoError(t, err)
	out, errOut, code := run(t, "transform", "test", "--collector", "--program", "{event}")
	require.Zero(t, code, errOut)
	assert.Equal(t, `{"event":"Paid"}`+"\n", out)
}
