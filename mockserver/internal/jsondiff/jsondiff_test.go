package jsondiff_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
)

func decode(t *testing.T, text string) any {
	t.Helper()
	v, err := jsondiff.Decode([]byte(text))
	require.NoError(t, err)
	return v
}

func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		got, want string
		subset    bool
		lines     []string
	}{
		"the same":                  {`{"a":1,"b":[true,null,"x"]}`, `{"b":[true,null,"x"],"a":1}`, false, nil},
		"a number written in e":     {`{"a":1e2}`, `{"a":100}`, false, nil},
		"integers beyond a float":   {`9007199254740993`, `9007199254740992`, false, []string{"document is 9007199254740993, want 9007199254740992"}},
		"another value":             {`{"a":"x"}`, `{"a":"y"}`, false, []string{`a is "x", want "y"`}},
		"another type":              {`{"a":"1"}`, `{"a":1}`, false, []string{`a is "1", want 1`}},
		"one more":                  {`{"a":1,"b":2}`, `{"a":1}`, false, []string{"b is 2, want no value"}},
		"one more in a subset":      {`{"a":1,"b":2}`, `{"a":1}`, true, nil},
		"one less":                  {`{}`, `{"a":{"b":1}}`, true, []string{`a is missing, want {"b":1}`}},
		"a longer array":            {`{"a":[1,2]}`, `{"a":[1]}`, true, []string{"a[1] is 2, want no value"}},
		"a shorter array":           {`{"a":[1]}`, `{"a":[1,2]}`, true, []string{"a[1] is missing, want 2"}},
		"a key that needs quotes":   {`{"a b":{"":1}}`, `{"a b":{"":2}}`, true, []string{`["a b"][""] is 1, want 2`}},
		"an object for a value":     {`{"a":{}}`, `{"a":1}`, true, []string{"a is {}, want 1"}},
		"null is a value":           {`{"a":null}`, `{"a":1}`, true, []string{"a is null, want 1"}},
		"a value where null is due": {`{"a":0}`, `{"a":null}`, true, []string{"a is 0, want null"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.lines, jsondiff.Compare(decode(t, c.got), decode(t, c.want), c.subset).Lines)
		})
	}
}

func TestManyDifferencesAreCounted(t *testing.T) {
	got, want := map[string]any{}, map[string]any{}
	for i := range 30 {
		want[string(rune('a'+i))] = "x"
	}
	lines := jsondiff.Compare(got, want, true).Lines
	require.Len(t, lines, 21)
	assert.Equal(t, "and 10 more differences", lines[20])
}

func TestDecodeRequiresOneValue(t *testing.T) {
	for text, want := range map[string]string{`{} x`: "unexpected data after the value at byte 2", ``: "EOF", `{"a":`: "unexpected EOF", `[1][2]`: "unexpected data after the value at byte 3"} {
		_, err := jsondiff.Decode([]byte(text))
		assert.EqualError(t, err, want, text)
	}
}
