package jsonscan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestObject(t *testing.T) {
	s := New([]byte(` {"a":1, "b\u0062" : [1,{"x":null}],"c":"d"} `))
	var keys, values []string
	require.NoError(t, s.Object(func(key []byte) error {
		keys = append(keys, string(Unquote(key)))
		v, err := s.Value()
		values = append(values, string(v))
		return err
	}))
	require.NoError(t, s.End())
	assert.Equal(t, []string{"a", "bb", "c"}, keys)
	assert.Equal(t, []string{"1", `[1,{"x":null}]`, `"d"`}, values)
}

func TestMembersOfTruncatedObject(t *testing.T) {
	for text, want := range map[string]string{
		`{"a" : 1,"\u0062":[2]}`: `"a" 1 "a" : 1;"\u0062" [2] "\u0062":[2];`,
		`{"a":1,"b":}`:           `"a" 1 "a":1;`,
		`{"a":1,"stop":2,"c":3}`: `"a" 1 "a":1;"stop" 2 "stop":2;`,
		`{}`:                     ``,
		`[]`:                     ``,
	} {
		got := ""
		for m := range Members([]byte(text)) {
			got += fmt.Sprintf("%s %s %s;", m.Key, m.Value, m.Text)
			if string(m.Key) == `"stop"` {
				break
			}
		}
		assert.Equal(t, want, got, text)
	}
}

func TestErrorsContainOffset(t *testing.T) {
	for text, want := range map[string]string{
		``:                 "invalid JSON at byte 0: unexpected end of text",
		`{"a":}`:           "invalid JSON at byte 5: expected a value",
		`{"a" 1}`:          "invalid JSON at byte 5: expected a colon after the key",
		`{a:1}`:            "invalid JSON at byte 1: expected a key in double quotes",
		`[1,]`:             "invalid JSON at byte 3: expected a value",
		`[1 2]`:            "invalid JSON at byte 3: expected a comma or ']'",
		`"\x"`:             "invalid JSON at byte 1: invalid escape sequence",
		`"abc`:             "invalid JSON at byte 4: unterminated string",
		"\"a\nb\"":         "invalid JSON at byte 2: unescaped control character in a string",
		`-`:                "invalid JSON at byte 0: missing digits after the minus sign",
		`1.`:               "invalid JSON at byte 0: missing digits after the decimal point",
		`1e+`:              "invalid JSON at byte 0: missing digits in the exponent",
		`tru`:              "invalid JSON at byte 0: expected true",
		`1 2`:              "invalid JSON at byte 2: text after the value",
		"\x00":             "invalid JSON at byte 0: expected a value",
		`{"a":1`:           "invalid JSON at byte 6: expected a comma or '}'",
		deep(MaxDepth + 1): "invalid JSON at byte 1000: nested deeper than 1000",
	} {
		s := New([]byte(text))
		_, err := s.Value()
		if err == nil {
			err = s.End()
		}
		assert.EqualError(t, err, want, "%.40q", text)
	}
	s := New([]byte(deep(MaxDepth)))
	_, err := s.Value()
	assert.NoError(t, err)
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// FuzzValue checks that the scanner accepts the same input as encoding/json and reads the same
// strings.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`0e0e`, `{"a":[1,-0.5e+3,"\ud83d\ude00\ud800x\n"]}`, `[]`, `"\u00"`, `01`, ` null `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(data)
		raw, err := s.Value()
		if err == nil {
			err = s.End()
		}
		if strings.Count(string(data), "[")+strings.Count(string(data), "{") > MaxDepth {
			return // encoding/json has a different depth limit
		}
		require.Equal(t, json.Valid(data), err == nil, "%v", err)
		var want string
		if err == nil && raw[0] == '"' && json.Unmarshal(raw, &want) == nil && utf8.Valid(raw) {
			require.Equal(t, want, string(Unquote(raw)))
		}
	})
}

func TestElementsStopsAtTheFirstError(t *testing.T) {
	for array, want := range map[string]string{"[]": "", "[1, [2], {}]": "1;[2];{};", "[1, 2, x, 3]": "1;2;", "{}": "", "": ""} {
		got := ""
		for element := range Elements([]byte(array)) {
			got += string(element) + ";"
		}
		if got != want {
			t.Errorf("the elements of %q are %q, want %q", array, got, want)
		}
	}
}
