package export_test

import (
	"bytes"
	"encoding/csv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestCellsAreNeverFormulas(t *testing.T) {
	for value, want := range map[string]string{
		`=HYPERLINK("http://evil")`: `'=HYPERLINK("http://evil")`,
		"+1":                        "'+1",
		"-5":                        "'-5",
		"@SUM(A1)":                  "'@SUM(A1)",
		"\t=1":                      "'\uFFFD=1",
		"\r=1":                      "'\uFFFD=1",
		"\n=1":                      "'\uFFFD=1",
		"  =1":                      "'  =1",
		"\u00A0+1":                  "'\u00A0+1",
		"＝1+1":                      "'＝1+1",
		"\uFEFF=1":                  "'\uFFFD=1",
		"a\tb\x1b[2J\u202E\u2028":   "a\uFFFDb\uFFFD[2J\uFFFD\uFFFD",
		"👩\u200D🚀":                  "👩\u200D🚀",
		`a","=1`:                    `a","=1`,
		"a=1":                       "a=1",
		"":                          "",
	} {
		c := export.Call{Call: tracking.Call{Event: value, UserID: value, AnonymousID: value, ID: value}}
		for _, row := range [][]string{c.Row(), export.Rejected{Title: value, UserID: value, AnonymousID: value, MessageID: value}.Row()} {
			require.Len(t, row, len(export.Columns))
			for _, column := range []int{4, 5, 6, 8} {
				assert.Equal(t, want, row[column], "%q", value)
			}
			var out bytes.Buffer
			w := csv.NewWriter(&out)
			require.NoError(t, w.Write(row))
			w.Flush()
			read, err := csv.NewReader(&out).ReadAll()
			require.NoError(t, err)
			assert.Equal(t, [][]string{row}, read)
		}
	}
}

func TestRowOfACall(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.FixedZone("", 3600))
	ended := func(destination string, state tracking.State, reason string) export.State {
		return export.State{Destination: destination, State: state, Reason: reason}
	}
	c := export.Call{
		Call:         tracking.Call{Type: "track", Event: "E", Source: "web", ReceivedAt: at, Violations: []tracking.Violation{{Message: "one"}, {Message: "two"}}},
		Destinations: []export.State{ended("a", tracking.StateDelivered, ""), ended("b", tracking.StatePending, ""), ended("c", tracking.StateFailed, "status 400")},
		Body:         []byte(`{"type":"track"}`),
	}
	assert.Equal(t, []string{
		"2026-01-31T11:00:00.005Z", "", "failed", "track", "E", "", "", "web", "", "a: delivered, b: pending, c: failed", "c: status 400", "one; two", `{"type":"track"}`,
	}, c.Row())
	c.Destinations = c.Destinations[:2]
	assert.Equal(t, "pending", c.Row()[2])
	c.Destinations = nil
	assert.Empty(t, c.Row()[2])
	assert.Equal(t, "rejected", export.Rejected{}.Row()[2])
}
