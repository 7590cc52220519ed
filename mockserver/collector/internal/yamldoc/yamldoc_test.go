package yamldoc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/yamldoc"
)

func TestValuesMatchJSON(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1":                        `{"a":1}`,
		"a: 1.50\nb: -3":              `{"a":1.5,"b":-3}`,
		`{"a":1e3,"b":1.50}`:          `{"a":1000,"b":1.5}`,
		"a: 12345678901234567":        `{"a":12345678901234567}`,
		"- x\n- true\n- null\n- ~":    `["x",true,null,null]`,
		"a: {b: [1, {c: d}]}":         `{"a":{"b":[1,{"c":"d"}]}}`,
		"a: 2026-01-31\nb: 12:30":     `{"a":"2026-01-31","b":"12:30"}`,
		"a: |\n  x\n  y\n":            `{"a":"x\ny\n"}`,
		"$min: 1\n\"$max\": 2":        `{"$min":1,"$max":2}`,
		`{"a":{"$regexp":"^a\\.b"}}`:  `{"a":{"$regexp":"^a\\.b"}}`,
		"a: '1'\nb: \"true\"\nc: yes": `{"a":"1","b":"true","c":"yes"}`,
		"1: x\ntrue: y":               `{"1":"x","true":"y"}`,
		"\uFEFFa: 1":                  `{"a":1}`,
		"\uFEFF{\"a\":1e3}":           `{"a":1000}`,
	} {
		t.Run(text, func(t *testing.T) {
			d, err := yamldoc.Read([]byte(text))
			require.NoError(t, err)
			got, err := json.Marshal(d.Value)
			require.NoError(t, err)
			assert.JSONEq(t, want, string(got))
		})
	}
}

func TestLines(t *testing.T) {
	d, err := yamldoc.Read([]byte("# first\nwithin: 1s\nexpect:\n  - type: track\n    properties:\n      a: 1\n      b:\n        - 1\n        - c: 2\n  # between\n  -\n    type: page\n  - {type: group,\n     name: x}\n"))
	require.NoError(t, err)
	for line, paths := range map[int][][]any{
		2:  {{}, {"within"}, {"none"}},
		3:  {{"expect"}, {"expect", 7}, {"expect", "x"}},
		4:  {{"expect", 0}, {"expect", 0, "type"}, {"expect", 0, "none"}},
		5:  {{"expect", 0, "properties"}},
		6:  {{"expect", 0, "properties", "a"}, {"expect", 0, "properties", "a", "b"}},
		9:  {{"expect", 0, "properties", "b", 1}, {"expect", 0, "properties", "b", 1, "c"}},
		12: {{"expect", 1}, {"expect", 1, "type"}},
		13: {{"expect", 2}, {"expect", 2, "type"}},
		14: {{"expect", 2, "name"}},
	} {
		for _, path := range paths {
			assert.Equal(t, line, d.Line(path), "%v", path)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]struct {
		line    int
		problem string
	}{
		"":                 {0, "the document is empty"},
		"# nothing":        {0, "the document is empty"},
		"a: 1\n---\nb: 2":  {3, "a second YAML document starts here: use one document per file"},
		"a: 1\nb: [1":      {2, "invalid YAML: sequence end token ']' not found"},
		"a: &x 1\nb: *x":   {2, "aliases are not supported; write out the value"},
		"a: 1\nb: 2\na: 3": {3, `invalid YAML: mapping key "a" already defined at [1:1]`},
		"a: .nan":          {0, "cannot be converted to JSON: json: unsupported value: NaN"},
		"a: 1\nb: " + strings.Repeat("[", 100_000): {2, "more than 100 nested levels"},
		strings.Repeat(`{"a":`, 100_000):           {1, "more than 100 nested levels"},
		strings.Repeat("- ", 100_000):              {1, "more than 100 nested levels"},
		strings.Repeat("a", 1<<20) + ":":           {0, "larger than 1048576 bytes"},
	} {
		_, err := yamldoc.Read([]byte(text))
		var syntax *yamldoc.SyntaxError
		require.ErrorAs(t, err, &syntax, "%.40q", text)
		assert.Equal(t, want.problem, syntax.Problem)
		assert.Equal(t, want.line, syntax.Line, "%.40q", text)
	}
}

// FuzzRead checks that Read does not panic and that every value has a line.
func FuzzRead(f *testing.F) {
	f.Add("a: 1\nb:\n  - c: &x 1\n")
	f.Add(`{"a":[1,{"b":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := yamldoc.Read([]byte(text))
		if err != nil {
			return
		}
		assert.GreaterOrEqual(t, d.Line([]any{"a", 0, "b"}), 0)
		_, err = json.Marshal(d.Value)
		assert.NoError(t, err)
	})
}
