package text_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		value        any
		indent, want string
	}{
		{map[string]any{"b": "<&>", "a": []int{1}}, "", `{"a":[1],"b":"<&>"}`},
		{map[string]any{"a": 1}, "  ", "{\n  \"a\": 1\n}"},
		{json.RawMessage(`{"z": 12345678901234567890}`), "", `{"z":12345678901234567890}`},
		{func() {}, "", ""},
	} {
		if got := string(text.JSON(c.value, c.indent)); got != c.want {
			t.Errorf("JSON(%v, %q) = %s, want %s", c.value, c.indent, got, c.want)
		}
	}
}

func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\t\"a\": 1\r\n}":     "{\n\t\"a\": 1\r\n}",
		"\"e\u0301 👩\u200d💻\"":   "\"e\u0301 👩\u200d💻\"",
		"\"\u009b\u202e\u2028\"": `"\u009b\u202e\u2028"`,
		"\"\U000e0001\u007f\"":   `"\udb40\udc01\u007f"`,
		"\"a\u00a0b\"":           "\"a\u00a0b\"",
	} {
		if got := string(text.PlainJSON([]byte(in))); got != want {
			t.Errorf("PlainJSON(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"a", "\x1b[2J", "\u009b", "\u202e", "\xff", "e\u0301", "👩\u200d💻", "\r\n\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain := text.Plain(s)
		for _, r := range plain {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e {
				t.Errorf("Plain(%q) contains %U", s, r)
			}
		}
		if again := text.Plain(plain); again != plain {
			t.Errorf("Plain(%q) = %q, want no change", plain, again)
		}
	})
}
