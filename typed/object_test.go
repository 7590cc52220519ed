package typed

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var keyA, keyB, keyLong = NewKey("a"), NewKey("b\"<é"), NewKey(strings.Repeat("long", 10))

func TestObject(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4_999_999, time.FixedZone("", -5*3600))
	for name, tt := range map[string]struct {
		write func(o *Object)
		want  string
	}{
		"empty":   {func(*Object) {}, `{}`},
		"strings": {func(o *Object) { o.String(keyA, "x{"); o.String(keyB, "\xff\n") }, `{"a":"x{","b\"<é":"\ufffd\n"}`},
		"scalars": {func(o *Object) { o.Int(keyLong, -1); o.Float(keyA, 0.5); o.Bool(keyB, true); o.Null(keyLong) },
			`{"` + keyLong.Name() + `":-1,"a":0.5,"b\"<é":true,"` + keyLong.Name() + `":null}`},
		"time": {func(o *Object) { o.Time(keyA, at) }, `{"a":"2024-02-29T06:02:03.004Z"}`},
		"any":  {func(o *Object) { o.Any(keyA, map[string]interface{}{"y": nil, "x": []string{"1"}}) }, `{"a":{"x":["1"],"y":null}}`},
		"object": {func(o *Object) {
			o.Object(keyA, func(o *Object) { o.Int(keyA, 1) })
			o.Object(keyB, func(*Object) {})
			o.Int(keyA, 2)
		}, `{"a":{"a":1},"b\"<é":{},"a":2}`},
		"array": {func(o *Object) {
			o.Array(keyA, func(a *Array) {
				a.String("x")
				a.Array(func(a *Array) { a.Int(1); a.Float(2.5); a.Array(func(*Array) {}) })
				a.Object(func(o *Object) { o.Array(keyA, func(a *Array) { a.Bool(true); a.Time(at) }) })
				a.Any(nil)
			})
			o.Int(keyA, 2)
		}, `{"a":["x",[1,2.5,[]],{"a":[true,"2024-02-29T06:02:03.004Z"]},null],"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Append([]byte("before"), "", tt.write)
			require.NoError(t, err)
			require.Equal(t, "before"+tt.want, string(out))
			require.True(t, json.Valid(out[len("before"):]))
		})
	}
}

func TestObjectErrors(t *testing.T) {
	var endless func(o *Object)
	endless = func(o *Object) { o.Object(keyA, endless) }
	for name, tt := range map[string]struct {
		write func(o *Object)
		want  string
	}{
		"NaN":          {func(o *Object) { o.Float(keyA, math.NaN()) }, "properties.a: json: unsupported value: NaN"},
		"channel":      {func(o *Object) { o.Any(keyA, make(chan int)) }, "properties.a: json: unsupported type: chan int"},
		"year":         {func(o *Object) { o.Time(keyA, time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)) }, "properties.a: the year of a time is not in the range 0 to 9999"},
		"required":     {func(o *Object) { o.Fail(keyA, ErrRequired) }, "properties.a: is required but empty"},
		"not one of":   {func(o *Object) { o.Fail(keyA, NotOneOf("GBP", "EUR", "USD")) }, `properties.a: "GBP" is not one of ["EUR" "USD"]`},
		"the first":    {func(o *Object) { o.Float(keyA, math.Inf(1)); o.Fail(keyB, ErrRequired); o.Int(keyA, 1) }, "properties.a: json: unsupported value: +Inf"},
		"in an object": {func(o *Object) { o.Object(keyA, func(o *Object) { o.Fail(keyA, ErrRequired) }) }, "properties.a.a: is required but empty"},
		"in an array": {func(o *Object) {
			o.Array(keyA, func(a *Array) {
				a.Array(func(a *Array) { a.Int(1); a.Int(2) })
				a.Array(func(a *Array) { a.Int(1); a.Int(2); a.Fail(ErrRequired); a.Int(3) })
			})
		}, "properties.a[1][2]: is required but empty"},
		"in an object of an array": {func(o *Object) {
			o.Array(keyA, func(a *Array) {
				a.Object(func(o *Object) { o.Array(keyA, func(a *Array) { a.Int(1) }) })
				a.Object(func(o *Object) { o.Float(keyA, math.NaN()) })
			})
		}, "properties.a[1].a: json: unsupported value: NaN"},
		"panic that write recovers": {func(o *Object) {
			defer func() { _ = recover() }()
			o.Object(keyA, func(*Object) { panic("oh") })
		}, "properties: an object or an array was not written to its end"},
		"zero key":              {func(o *Object) { o.Int(new(Key), 1) }, "properties: a typed.Key is the zero value: use typed.NewKey"},
		"zero key after others": {func(o *Object) { o.Int(keyA, 1); o.Int(new(Key), 1) }, "properties: a typed.Key is the zero value: use typed.NewKey"},
		"zero key in an object": {func(o *Object) {
			o.Object(keyA, func(o *Object) { o.Int(keyA, 1); o.Object(new(Key), func(*Object) {}) })
		}, "properties.a: a typed.Key is the zero value: use typed.NewKey"},
		"panic":    {func(o *Object) { panic("oh") }, "properties: writing an object panicked: oh"},
		"too deep": {endless, "nested deeper than 990 levels"},
		"too large": {func(o *Object) {
			for range 1 << 20 {
				o.String(keyA, strings.Repeat("x", 1<<10))
			}
		}, "more than 16 MB of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Append([]byte("before"), "properties", tt.write)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, "before", string(out))
			out, err = Append(nil, "", func(o *Object) { o.Int(keyA, 1) })
			require.NoError(t, err)
			require.Equal(t, `{"a":1}`, string(out), "the next object is valid")
		})
	}
	_, err := Append(nil, "", func(o *Object) { o.Fail(keyA, ErrRequired) })
	require.True(t, errors.Is(err, ErrRequired))
}

func TestOpt(t *testing.T) {
	var left Opt[string]
	_, ok := left.Get()
	require.False(t, ok)
	v, ok := Some("").Get()
	require.True(t, ok)
	require.Empty(t, v)
	require.Equal(t, Some(1), Some(1))
	require.NotEqual(t, Some(0), Opt[int]{})
}

// FuzzObject checks that encoding/json reads the same values from the output.
func FuzzObject(f *testing.F) {
	f.Add("a", "x", 1.5, int64(-1), true)
	f.Add("\"\xff{", "{", 1e300, int64(0), false)
	f.Fuzz(func(t *testing.T, name, s string, n float64, i int64, b bool) {
		k := NewKey(name)
		out, err := Append(nil, "", func(o *Object) {
			o.Object(k, func(o *Object) { o.String(k, s) })
			o.Array(NewKey("?"+name), func(a *Array) {
				a.String(s)
				a.Int(i)
				a.Bool(b)
				a.Object(func(o *Object) { o.Any(k, s) })
				a.Float(n)
			})
		})
		if math.IsNaN(n) || math.IsInf(n, 0) {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		name, s = strings.ToValidUTF8(name, "\ufffd"), strings.ToValidUTF8(s, "\ufffd")
		var got map[string]interface{}
		require.NoError(t, json.Unmarshal(out, &got), "%s", out)
		require.Len(t, got, 2)
		for _, v := range got {
			if a, ok := v.([]interface{}); ok {
				require.Len(t, a, 5)
				require.Equal(t, float64(i), a[1])
				require.Equal(t, n, a[4])
			} else {
				require.Len(t, v, 1)
			}
		}
	})
}
