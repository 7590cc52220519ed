package analytics_test

import (
	"bytes"
	"log"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// The error for a call that is too large contains the call's size and its largest field.
func TestTooLargeNamesSizeAndField(t *testing.T) {
	for title, c := range map[string]struct {
		call  analytics.Call
		field string
		size  int
	}{
		"33 KB of properties": {
			&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 33<<10)}},
			"properties", 33 << 10,
		},
		"33 KB of an event's name": {&analytics.Track{Event: strings.Repeat("e", 33<<10), UserId: "u"}, "event", 33 << 10},
		"17 MB of an event's name": {&analytics.Track{Event: strings.Repeat("e", 17<<20), UserId: "u"}, "event", 17 << 20},
		"17 MB of properties": {
			&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"text": strings.Repeat("x", 17<<20)}},
			"properties", 16 << 20,
		},
		"17 MB of traits, in small pieces": {
			&analytics.Identify{UserId: "u", Traits: map[string]interface{}{"list": make([]int64, 9<<20)}},
			"traits", 16 << 20,
		},
	} {
		t.Run(title, func(t *testing.T) {
			client := newClient(t, &collector{}, analytics.Config{})
			err := client.Enqueue(t.Context(), c.call)
			var tooLarge *analytics.TooLargeError
			require.ErrorAs(t, err, &tooLarge)
			require.Equal(t, c.field, tooLarge.Field)
			require.Greater(t, tooLarge.Size, c.size)
			require.Equal(t, analytics.MaxCallBytes, tooLarge.Limit)
			require.ErrorContains(t, err, "its largest field is "+c.field)
			require.Equal(t, analytics.Rejects{TooLarge: 1}, client.Stats().Rejected)
			require.NoError(t, client.Close())
		})
	}
}

// The log contains the unchanged text of a response if the text is printable.
func TestRefusalIsLoggedAsItsMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"success":false,"code":"bad","message":"call 3 has no \"event\"","error":"e"}`: `: call 3 has no "event"`,
		`{"error":"only an error"}`:   ": only an error",
		`{"error":{"type":"object"}}`: `: {"error":{"type":"object"}}`,
		`{"message":""}`:              `: {"message":""}`,
		"plain text\n":                ": plain text",
		"Größe":                       ": Größe",
		"two\nlines %s":               `: "two\nlines %s"`,
		"\x1b[31mred":                 `: "\x1b[31mred"`,
		"\xff":                        `: "\xff"`,
		"":                            "",
		`{"message":"` + strings.Repeat("m", 300) + `"}`:                        ": " + strings.Repeat("m", 200) + "…",
		`{"calls":"` + strings.Repeat("c", 2000) + `","message":"behind them"}`: ": behind them",
		strings.Repeat("x", 1<<20):                                              ": " + strings.Repeat("x", 200) + "…",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := always(answer{status: 403, body: strings.NewReader(body)})
			var out bytes.Buffer
			client := newClient(t, c, analytics.Config{Logger: log.New(&out, "", 0)})
			track(t, client, "e", 1)
			require.Error(t, client.Close())
			require.Equal(t, "lost 1 call: refused, attempt 1: the collector responded with 403 Forbidden"+want+"\n", out.String())
		})
	}
}
