package page

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

func TestLayOutMarksMembersAndKeepsDigits(t *testing.T) {
	lines := LayOut([]byte(`{"a":12345678901234567890,"b":{"c":[1.10,-0,true,null,"x\u0041"]},"d":{},"e":[]}`), func(key string) (string, string) {
		if key == "b" {
			return "wrong", "why"
		}
		return "", ""
	})
	var text []string
	for _, l := range lines {
		line := ""
		for _, p := range l.Parts {
			line += p.Text
		}
		if l.Mark != "" {
			line += " ← " + l.Mark
		}
		text = append(text, line)
	}
	assert.Equal(t, strings.Split(`{
  "a": 12345678901234567890,
  "b": { ← wrong
    "c": [ ← wrong
      1.10, ← wrong
      -0, ← wrong
      true, ← wrong
      null, ← wrong
      "x\u0041" ← wrong
    ] ← wrong
  }, ← wrong
  "d": {},
  "e": []
}`, "\n"), text)
}

func TestIndented(t *testing.T) {
	assert.Equal(t, "{\n  \"a\": 12345678901234567890,\n  \"b\": [\n    1.10\n  ],\n  \"c\": {}\n}", Indented([]byte(`{"a":12345678901234567890,"b":[1.10],"c":{}}`)))
	assert.Equal(t, "{", Indented([]byte("{")))
	deep := strings.Repeat("[", 900) + strings.Repeat("]", 900)
	assert.Less(t, len(Indented([]byte(deep))), 100_000, "indentation is bounded")
}

// FuzzLayOut checks that formatting only changes white space.
func FuzzLayOut(f *testing.F) {
	for _, doc := range []string{`{}`, `[]`, `{"a":[{"b":1.10}],"c":"\ud800"}`, `{"a":`, "nul", ` 1 `, "{\"\xff\":\"\x00\"}", strings.Repeat("[", 900) + strings.Repeat("]", 900)} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var out bytes.Buffer
		for _, l := range LayOut(doc, nil) {
			for _, p := range l.Parts {
				out.WriteString(p.Text)
			}
		}
		if json.Valid(doc) {
			want, got := new(bytes.Buffer), new(bytes.Buffer)
			require.NoError(t, json.Compact(want, doc))
			require.NoError(t, json.Compact(got, out.Bytes()))
			require.Equal(t, want.String(), got.String())
		}
	})
}

func TestVisible(t *testing.T) {
	for text, want := range map[string][]textPart{
		"":                   nil,
		"plain é 日本 👩‍👩‍👧":   {{Text: "plain é 日本 👩‍👩‍👧"}},
		"a\u202Eb":           {{Text: "a"}, {Code: "U+202E"}, {Text: "b"}},
		"\x00\uFEFF":         {{Code: "U+0000"}, {Code: "U+FEFF"}},
		"\xff\xfea\uFFFD":    {{Code: "FF"}, {Code: "FE"}, {Text: "a\uFFFD"}},
		"tab\tline\nkept":    {{Text: "tab\tline\nkept"}},
		"\u2028\U000E0041 x": {{Code: "U+2028"}, {Code: "U+E0041"}, {Text: " x"}},
	} {
		assert.Equal(t, want, visible(text), "%q", text)
	}
}

// FuzzVisible checks that every byte is shown or named.
func FuzzVisible(f *testing.F) {
	f.Add("a\u202Eb\xff")
	f.Fuzz(func(t *testing.T, s string) {
		at := 0
		for _, p := range visible(s) {
			if p.Code == "" {
				require.Equal(t, s[at:at+len(p.Text)], p.Text)
				require.True(t, utf8.ValidString(p.Text))
				require.False(t, strings.ContainsFunc(p.Text, func(r rune) bool {
					return r != '\n' && r != '\t' && r != '\u200C' && r != '\u200D' && unicode.Is(unicode.Cf, r) || r < ' ' && r != '\n' && r != '\t'
				}))
				at += len(p.Text)
				continue
			}
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
		}
		require.Equal(t, len(s), at)
		require.LessOrEqual(t, utf8.RuneCountInString(text.Cut(3, s)), max(4, len(s)))
	})
}

func TestFormatting(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 412 * time.Microsecond: "412µs", 1234 * time.Microsecond: "1.2ms", 56789 * time.Microsecond: "57ms",
		12345 * time.Millisecond: "12.3s", 95 * time.Second: "1m35s", 4*time.Hour + 59*time.Second: "4h1m", -2 * time.Second: "-2s",
	} {
		assert.Equal(t, want, ShortDuration(d))
	}
	assert.Equal(t, "1,234,567", text.GroupDigits(1234567))
	assert.Equal(t, "-1,234", text.GroupDigits(-1234))
	assert.Equal(t, "999", text.GroupDigits(999))
	assert.Equal(t, "1 call", text.Plural(1, "call", "calls"))
	assert.Equal(t, "2,000 calls", text.Plural(2000, "call", "calls"))
	assert.Equal(t, "ab…", text.Cut(2, "abc"))
	assert.Equal(t, "日本…", text.Cut(2, "日本語"))
	assert.Equal(t, "abc", text.Cut(3, "abc"))
}

func TestTimesOfOtherDaysHaveADate(t *testing.T) {
	now := time.Date(2026, 11, 26, 0, 10, 0, 0, time.UTC)
	assert.Equal(t, "00:09:59.000", clock(now.Add(-time.Second), now))
	assert.Equal(t, "Nov 25 23:40", clock(now.Add(-30*time.Minute), now))
	assert.Equal(t, "Nov 27 00:10", clock(now.Add(24*time.Hour), now))
}
