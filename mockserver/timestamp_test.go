package mockserver

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimesAreReadLeniently(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31T12:34:56.789Z":          "2026-01-31T12:34:56.789Z",
		"2026-01-31T12:34:56Z":              "2026-01-31T12:34:56.000Z",
		"2026-01-31T12:34:56.7Z":            "2026-01-31T12:34:56.700Z",
		"2026-01-31T12:34:56.789123Z":       "2026-01-31T12:34:56.789Z",
		"2026-01-31T12:34:56.789123456Z":    "2026-01-31T12:34:56.789Z",
		"2026-01-31T12:34:56.789123456789Z": "2026-01-31T12:34:56.789Z",
		"2026-01-31T12:34:56,789Z":          "2026-01-31T12:34:56.789Z",
		"2026-01-31T12:34:56+00:00":         "2026-01-31T12:34:56.000Z",
		"2026-01-31T12:34:56+0000":          "2026-01-31T12:34:56.000Z",
		"2026-01-31T12:34:56+00":            "2026-01-31T12:34:56.000Z",
		"2026-01-31T12:34:56-08:00":         "2026-01-31T20:34:56.000Z",
		"2026-01-31T12:34:56.123+05:45":     "2026-01-31T06:49:56.123Z",
		"2026-01-31T12:34:56":               "2026-01-31T12:34:56.000Z",
		"2026-01-31T12:34Z":                 "2026-01-31T12:34:00.000Z",
		"2026-01-31T12:34":                  "2026-01-31T12:34:00.000Z",
		"2026-01-31T12":                     "2026-01-31T12:00:00.000Z",
		"2026-01-31":                        "2026-01-31T00:00:00.000Z",
		"2026-01-31 12:34:56":               "2026-01-31T12:34:56.000Z",
		"2026-01-31 12:34:56.123456+02:00":  "2026-01-31T10:34:56.123Z",
		"2026-01-31 12:34:56 +0200":         "2026-01-31T10:34:56.000Z",
		"2026-01-31 12:34:56 UTC":           "2026-01-31T12:34:56.000Z",
		"2026-01-31t12:34:56z":              "2026-01-31T12:34:56.000Z",
		"20260131T123456Z":                  "2026-01-31T12:34:56.000Z",
		"20260131T123456.789+0100":          "2026-01-31T11:34:56.789Z",
		"20260131":                          "2026-01-31T00:00:00.000Z",
		"2024-02-29T00:00:00Z":              "2024-02-29T00:00:00.000Z",
		"2016-12-31T23:59:60Z":              "2017-01-01T00:00:00.000Z",
		"2026-01-31T24:00:00Z":              "2026-02-01T00:00:00.000Z",
		"0000-01-01T00:00:00Z":              "0000-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999999999Z":    "9999-12-31T23:59:59.999Z",
		"":                                  "",
		"yesterday":                         "",
		"1769862896":                        "",
		"2026":                              "",
		"2026-01":                           "",
		"2026-1-31T12:34:56Z":               "",
		"2026-0131T12:34:56Z":               "",
		"2026-13-01T00:00:00Z":              "",
		"2026-00-01T00:00:00Z":              "",
		"2026-02-29T00:00:00Z":              "",
		"2026-01-32T00:00:00Z":              "",
		"2026-01-31T25:00:00Z":              "",
		"2026-01-31T24:00:01Z":              "",
		"2026-01-31T12:60:00Z":              "",
		"2026-01-31T12:34:61Z":              "",
		"2026-01-31T12:34:56.Z":             "",
		"2026-01-31T12:34:56X":              "",
		"2026-01-31T12:34:56+24:00":         "",
		"2026-01-31T12:34:56+01:60":         "",
		"2026-01-31T12:34:56Z ":             "",
		" 2026-01-31T12:34:56Z":             "",
		"2026-01-31T12:34:56ZZ":             "",
		"2026-01-31T":                       "",
		"9999-12-31T23:59:59-01:00":         "",
		"0000-01-01T00:00:00+01:00":         "",
		"+12026-01-31T12:34:56Z":            "",
		"2026-01-31T12:34:56." + strings.Repeat("9", 30_000): "2026-01-31T12:34:56.999Z",
		strings.Repeat("2026-01-31T12:34:56Z", 1000):         "",
	} {
		got, err := parseTime(text)
		if want == "" {
			assert.Error(t, err, text)
			assert.Zero(t, got, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, string(appendTime(nil, got)), text)
		assert.Equal(t, time.UTC, got.Location())
	}
}

func TestClocksAreCorrected(t *testing.T) {
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		parsed, err := parseTime(text)
		require.NoError(t, err)
		return parsed
	}
	const received = "2026-01-31T12:00:00Z"
	for _, test := range []struct{ name, sent, original, want string }{
		{"a clock that is right", "2026-01-31T12:00:00Z", "2026-01-31T11:00:00Z", "2026-01-31T11:00:00Z"},
		{"an hour fast", "2026-01-31T13:00:00Z", "2026-01-31T12:30:00Z", "2026-01-31T11:30:00Z"},
		{"years slow", "1970-01-01T00:10:00Z", "1970-01-01T00:09:30Z", "2026-01-31T11:59:30Z"},
		{"no sentAt", "", "2020-05-05T05:05:05Z", "2020-05-05T05:05:05Z"},
		{"no timestamp", "2026-01-31T13:00:00Z", "", "2026-01-31T12:00:00Z"},
		{"neither", "", "", "2026-01-31T12:00:00Z"},
		{"thousands of years ahead", "2026-01-31T12:00:00.25Z", "9999-12-30T00:00:00Z", "9999-12-29T23:59:59.75Z"},
		{"beyond what can be written", "0001-01-02T00:00:00Z", "9999-12-31T00:00:00Z", received},
		{"before what can be written", "9999-12-31T00:00:00Z", "0001-01-02T00:00:00Z", received},
	} {
		assert.Equal(t, at(test.want), correctClock(at(received), at(test.sent), at(test.original)), test.name)
	}
}

// FuzzParseTime holds the parser against the standard library: what is RFC 3339
// is read alike, and what is read can be written and read again.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"2026-01-31T12:34:56.789Z", "20260131T123456+01", "2026-01-31 12:34 UTC", "2016-12-31T23:59:60Z", "0000-01-01T00:00:00+23:59"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTime(text)
		var want time.Time // its UnmarshalText is stricter than Parse
		if want.UnmarshalText([]byte(text)) == nil && want.UTC().Year() >= 0 && want.UTC().Year() <= 9999 {
			require.NoError(t, err)
			require.True(t, want.Equal(got), "%v, want %v", got, want)
		}
		if err != nil {
			return
		}
		written := string(appendTime(nil, got))
		require.Equal(t, got.Format("2006-01-02T15:04:05.000Z"), written)
		again, err := parseTime(written)
		require.NoError(t, err)
		require.Equal(t, got.Truncate(time.Millisecond), again)
	})
}
