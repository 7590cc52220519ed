package jsondiff_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
)

func TestComparePaths(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		want          []string // lines with path, kind, first and second value
	}{
		"the same":                   {`{"a":1}`, `{"a":1}`, []string{`a same 1 1`}},
		"keys in another order":      {`{"a":1,"b":2}`, `{"b":2,"a":1}`, []string{`a same 1 1`, `b same 2 2`}},
		"white space":                {`{"a": [1, 2] }`, "{\"a\":\n[1,2]}", []string{`a[0] same 1 1`, `a[1] same 2 2`}},
		"numbers keep their digits":  {`{"a":12345678901234567890}`, `{"a":12345678901234567891}`, []string{`a changed 12345678901234567890 12345678901234567891`}},
		"numbers written otherwise":  {`{"a":1.0}`, `{"a":1}`, []string{`a same 1.0 1`}},
		"strings written otherwise":  {`{"a":"\u00e9"}`, `{"a":"é"}`, []string{`a same "\u00e9" "é"`}},
		"a number and its text":      {`{"a":1}`, `{"a":"1"}`, []string{`a changed 1 "1"`}},
		"null and nothing":           {`{"a":null}`, `{}`, []string{`a removed null -`}},
		"false and true":             {`{"a":false}`, `{"a":true}`, []string{`a changed false true`}},
		"false and null":             {`[false]`, `[null]`, []string{`[0] changed false null`}},
		"added below":                {`{}`, `{"p":{"x":[1,{"y":"z"}]}}`, []string{`p.x[0] added - 1`, `p.x[1].y added - "z"`}},
		"removed below":              {`{"p":{"x":[]}}`, `{}`, []string{`p.x removed [] -`}},
		"an object and a string":     {`{"a":{"b":1}}`, `{"a":"b"}`, []string{`a changed {"b":1} "b"`}},
		"an object and an array":     {`{"a":{}}`, `{"a":[]}`, []string{`a changed {} []`}},
		"empty and not":              {`{"a":{}}`, `{"a":{"b":1}}`, []string{`a.b added - 1`}},
		"a longer array":             {`[1]`, `[1,2]`, []string{`[0] same 1 1`, `[1] added - 2`}},
		"both empty":                 {`{"a":[],"b":{}}`, `{"b":{},"a":[]}`, []string{`a same [] []`, `b same {} {}`}},
		"a key that is no name":      {`{"unit price":1}`, `{"unit price":2}`, []string{`["unit price"] changed 1 2`}},
		"keys written otherwise":     {`{"\u0061":1}`, `{"a":1}`, []string{`["\u0061"] same 1 1`}},
		"the last of duplicate keys": {`{"a":1,"a":2}`, `{"a":2}`, []string{`a same 2 2`}},
		"no objects":                 {`1`, `"1"`, []string{` changed 1 "1"`}},
		"the order of the first":     {`{"b":1,"a":2}`, `{"a":2,"c":3,"b":1}`, []string{`b same 1 1`, `a same 2 2`, `c added - 3`}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := jsondiff.ComparePaths([]byte(c.first), []byte(c.second))
			require.NoError(t, err)
			assert.Equal(t, c.want, texts(d))
		})
	}
}

func texts(d jsondiff.Difference) (all []string) {
	or := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, l := range d.Lines {
		all = append(all, fmt.Sprintf("%s %s %s %s", l.Path, l.Kind, or(l.First), or(l.Second)))
	}
	return all
}

func TestComparePathsInvalidJSON(t *testing.T) {
	for _, bad := range []string{"", "{", `{"a":}`, "1 2", `{"a":[1,}`} {
		_, err := jsondiff.ComparePaths([]byte(bad), []byte("{}"))
		assert.Error(t, err, bad)
		_, err = jsondiff.ComparePaths([]byte("{}"), []byte(bad))
		assert.Error(t, err, bad)
	}
}

func TestComparePathsLimits(t *testing.T) {
	wide := "[" + strings.Repeat("1,", 9_999) + "1]"
	d, err := jsondiff.ComparePaths([]byte(wide), []byte("[]"))
	require.NoError(t, err)
	assert.Len(t, d.Lines, 2000)
	assert.Equal(t, 10_000, d.Differing)
	assert.True(t, d.Incomplete)

	deep := strings.Repeat(`{"key":`, 900) + `"` + strings.Repeat("x", 10_000) + `"` + strings.Repeat("}", 900)
	d, err = jsondiff.ComparePaths([]byte(deep), []byte("{}"))
	require.NoError(t, err)
	require.Len(t, d.Lines, 1)
	assert.Less(t, len(d.Lines[0].Path), 1100)
	assert.Less(t, len(d.Lines[0].First), 4200)
}

// FuzzComparePaths compares the results with encoding/json.
func FuzzComparePaths(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}]}`, `{"a":[1.0,{"b":null}],"c":"\u00e9"}`)
	f.Add(`{"a":1,"a":2}`, `{"a":2}`)
	f.Add(`"\ud800"`, `"\ufffd"`)
	f.Fuzz(func(t *testing.T, first, second string) {
		d, err := jsondiff.ComparePaths([]byte(first), []byte(second))
		back, errBack := jsondiff.ComparePaths([]byte(second), []byte(first))
		if (err == nil) != (errBack == nil) {
			t.Fatalf("%v, but the other way round %v", err, errBack)
		}
		if err != nil {
			return
		}
		if d.Differing != back.Differing || d.Equal != back.Equal {
			t.Fatalf("%+v, but the other way round %+v", d, back)
		}
		var a, b any
		if json.Unmarshal([]byte(first), &a) != nil || json.Unmarshal([]byte(second), &b) != nil {
			return
		}
		// encoding/json represents numbers less exactly.
		if d.Differing == 0 && !reflect.DeepEqual(a, b) {
			t.Fatalf("no difference between %s and %s", first, second)
		}
	})
}
