package cli

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestSendExamples checks that the example of each type has the flags that the type requires.
func TestSendExamples(t *testing.T) {
	for i := range fields.CallTypes {
		typ := &fields.CallTypes[i]
		cmd := newSendType(typ)
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(typ.Example, -1) {
			require.NoError(t, cmd.Flags().Set(flag[1], "x"), typ.Name)
		}
		assert.NoError(t, requireFields(cmd, typ), typ.Name)
		for _, f := range typ.Own {
			assert.NotEmpty(t, cmd.Flag(flagOf(f)).Usage, fields.Names[f])
		}
	}
}

func TestSendExplainsPausedDestination(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{AnyWriteKey: true, Destinations: []tracking.Destination{
		{Name: "my crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}},
	}})
	t.Setenv("COLLECTOR_URL", srv.URL)
	_, errOut, code := run(t, "pause", "my crm")
	require.Zero(t, code, errOut)
	out, errOut, code := run(t, "send", "page", "--user-id", "u", "--wait", "1s")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "pending  my crm\n")
	assert.Equal(t, "collector: the call is still pending after 1s; my crm is paused: resume it with collector resume 'my crm'\n", errOut)
}
