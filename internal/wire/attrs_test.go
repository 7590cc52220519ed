package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func attrsJSON(t *testing.T, attrs ...slog.Attr) string {
	t.Helper()
	return bothJSON(t, nil, attrs...)
}

func bothJSON(t *testing.T, m map[string]interface{}, attrs ...slog.Attr) string {
	t.Helper()
	out, err := AppendAttrs([]byte("before"), m, attrs, "properties", HashPath("properties"))
	require.NoError(t, err)
	rest, ok := strings.CutPrefix(string(out), "before")
	require.True(t, ok)
	require.True(t, json.Valid([]byte(rest)), rest)
	return rest
}

type (
	secret  struct{}
	person  struct{ name string }
	again   struct{}
	deeper  struct{ key string }
	aborted struct{}
)

func (secret) LogValue() slog.Value   { return slog.StringValue("***") }
func (p person) LogValue() slog.Value { return slog.GroupValue(slog.String("name", p.name)) }
func (again) LogValue() slog.Value    { return slog.AnyValue(again{}) }
func (d deeper) LogValue() slog.Value {
	return slog.GroupValue(slog.Any(d.key, d), slog.Any(d.key, d))
}
func (aborted) LogValue() slog.Value { panic("no value") }

func TestAttributes(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4_999_999, time.FixedZone("", -5*3600))
	for name, tt := range map[string]struct {
		attrs []slog.Attr
		want  string
	}{
		"none":                    {nil, `{}`},
		"in their order":          {[]slog.Attr{slog.String("b", "x"), slog.Int("a", 1)}, `{"b":"x","a":1}`},
		"scalars":                 {[]slog.Attr{slog.Bool("b", true), slog.Uint64("u", math.MaxUint64), slog.Int64("i", math.MinInt64), slog.Float64("f", 0.1)}, `{"b":true,"u":18446744073709551615,"i":-9223372036854775808,"f":0.1}`},
		"time in UTC":             {[]slog.Attr{slog.Time("t", at)}, `{"t":"2024-02-29T06:02:03.004Z"}`},
		"time by Any":             {[]slog.Attr{slog.Any("t", at)}, `{"t":"2024-02-29T06:02:03.004Z"}`},
		"zero time":               {[]slog.Attr{slog.Time("t", time.Time{})}, `{"t":"0001-01-01T00:00:00.000Z"}`},
		"duration in nanoseconds": {[]slog.Attr{slog.Duration("d", 1500*time.Millisecond)}, `{"d":1500000000}`},
		"escaped":                 {[]slog.Attr{slog.String("a\"\n", "\xff<")}, `{"a\"\n":"\ufffd<"}`},
		"nil":                     {[]slog.Attr{slog.Any("n", nil), {Key: "z"}}, `{"n":null,"z":null}`},
		"any other value":         {[]slog.Attr{slog.Any("s", []string{"x"}), slog.Any("m", map[string]int{"b": 1, "a": 2}), slog.Any("p", struct{ X int }{1})}, `{"s":["x"],"m":{"a":2,"b":1},"p":{"X":1}}`},
		"group":                   {[]slog.Attr{slog.Group("cart", slog.Int("n", 2), slog.Group("owner", slog.String("id", "u")))}, `{"cart":{"n":2,"owner":{"id":"u"}}}`},
		"group without key":       {[]slog.Attr{slog.Int("a", 1), slog.Group("", slog.Int("b", 2), slog.Group("", slog.Int("c", 3)))}, `{"a":1,"b":2,"c":3}`},
		"empty group":             {[]slog.Attr{slog.Group("g"), slog.Int("a", 1), slog.Group("h"), slog.Group("")}, `{"a":1}`},
		"empty attribute":         {[]slog.Attr{{}, slog.Int("a", 1), {}}, `{"a":1}`},
		"empty key":               {[]slog.Attr{slog.Int("", 1)}, `{"":1}`},
		"last of equal keys":      {[]slog.Attr{slog.Int("a", 1), slog.Int("b", 2), slog.String("a", "x")}, `{"b":2,"a":"x"}`},
		"equal keys in a group":   {[]slog.Attr{slog.Group("g", slog.Int("a", 1), slog.Int("a", 2))}, `{"g":{"a":2}}`},
		"equal key without group": {[]slog.Attr{slog.Int("a", 1), slog.Group("", slog.Int("a", 2))}, `{"a":2}`},
		"LogValuer":               {[]slog.Attr{slog.Any("password", secret{})}, `{"password":"***"}`},
		"LogValuer of a group":    {[]slog.Attr{slog.Any("user", person{"Ann"}), slog.Any("", person{"Bob"})}, `{"user":{"name":"Ann"},"name":"Bob"}`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, attrsJSON(t, tt.attrs...)) })
	}
}

func TestAttributesBesideAMap(t *testing.T) {
	m := map[string]interface{}{"plan": "team", "seats": 3}
	for name, tt := range map[string]struct {
		attrs []slog.Attr
		want  string
	}{
		"others":         {[]slog.Attr{slog.Int("a", 1)}, `{"plan":"team","seats":3,"a":1}`},
		"the same":       {[]slog.Attr{slog.Int("seats", 4), slog.Int("a", 1)}, `{"plan":"team","seats":4,"a":1}`},
		"all":            {[]slog.Attr{slog.Int("seats", 4), slog.Int("plan", 1)}, `{"seats":4,"plan":1}`},
		"nothing at all": {[]slog.Attr{{}, slog.Group("plan")}, `{"plan":"team","seats":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, bothJSON(t, m, tt.attrs...))
			require.Equal(t, map[string]interface{}{"plan": "team", "seats": 3}, m)
		})
	}
}

func TestAttributesThatCannotBeWritten(t *testing.T) {
	cycle := []slog.Attr{slog.Int("a", 1), slog.Int("b", 2)}
	cycle[0], cycle[1] = slog.Attr{Value: slog.GroupValue(cycle...)}, slog.Attr{Value: slog.GroupValue(cycle...)}
	for name, tt := range map[string]struct {
		attr slog.Attr
		path string
		text string
	}{
		"NaN":                      {slog.Float64("total", math.NaN()), "properties.total", "json: unsupported value: NaN"},
		"NaN in a group":           {slog.Group("cart", slog.Float64("total", math.Inf(1))), "properties.cart.total", "json: unsupported value: +Inf"},
		"channel":                  {slog.Any("c", make(chan int)), "properties.c", "json: unsupported type: chan int"},
		"year":                     {slog.Time("t", time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)), "properties.t", "the year of a time is not in the range 0 to 9999"},
		"panic":                    {slog.Any("p", aborted{}), "properties.p", "LogValue of a wire.aborted panicked: no value"},
		"endless LogValue":         {slog.Any("e", again{}), "properties.e", errExpanded.Error()},
		"ever deeper":              {slog.Any("d", deeper{"k"}), "", errExpanded.Error()},
		"ever deeper without keys": {slog.Any("", deeper{""}), "", errExpanded.Error()},
		"groups in themselves":     {cycle[0], "", errExpanded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []map[string]interface{}{nil, {"a": 1}} {
				out, err := AppendAttrs([]byte("before"), m, []slog.Attr{slog.Int("first", 1), tt.attr}, "properties", HashPath("properties"))
				var value *ValueError
				require.True(t, errors.As(err, &value), "%v", err)
				if tt.path != "" {
					require.Equal(t, tt.path, value.Path())
				}
				require.ErrorContains(t, value.Err, tt.text)
				require.Equal(t, "before", string(out))
			}
		})
	}
}

// randomAttrs returns attributes and the equivalent map. Values in the map have the format that
// attributes have in JSON.
func randomAttrs(r *rand.Rand, depth int) ([]slog.Attr, map[string]interface{}) {
	var attrs []slog.Attr
	m := map[string]interface{}{}
	for range r.IntN(24) {
		key := fmt.Sprintf("%.*s%d", r.IntN(12), `ke"y <é`+"\xff12345", r.IntN(30))
		a := slog.Attr{Key: key}
		switch r.IntN(11) {
		case 0:
			a.Value = slog.StringValue(strings.Repeat("é\"x", r.IntN(9)))
		case 1:
			a.Value = slog.Int64Value(r.Int64() - r.Int64())
		case 2:
			a.Value = slog.Uint64Value(r.Uint64())
		case 3:
			a.Value = slog.Float64Value(r.NormFloat64() * math.Pow(10, float64(r.IntN(60)-30)))
		case 4:
			a.Value = slog.BoolValue(r.IntN(2) == 0)
		case 5:
			a.Value = slog.DurationValue(time.Duration(r.Int64()))
		case 6:
			t := time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()
			a.Value = slog.TimeValue(t)
			attrs, m[key] = append(attrs, a), t.Format("2006-01-02T15:04:05.000Z")
			continue
		case 7:
			a.Value = slog.AnyValue([]interface{}{r.IntN(5), nil, "x", map[string]interface{}{"b": 1, "a": []string{"z"}}})
		case 8:
			a.Value = slog.AnyValue(person{"Ann"})
			attrs, m[key] = append(attrs, a), map[string]interface{}{"name": "Ann"}
			continue
		default:
			if depth == 0 {
				a.Value = slog.AnyValue(nil)
				break
			}
			nested, object := randomAttrs(r, depth-1)
			if len(object) == 0 {
				continue
			}
			a.Value = slog.GroupValue(nested...)
			attrs, m[key] = append(attrs, a), object
			continue
		}
		attrs, m[key] = append(attrs, a), a.Value.Any()
	}
	return attrs, m
}

// sameAsMap checks that attributes are encoded like the equivalent map, except for the order of keys.
func sameAsMap(t *testing.T, seed uint64) {
	attrs, m := randomAttrs(rand.New(rand.NewPCG(seed, 17)), 3)
	want, err := AppendMap(nil, m, "")
	require.NoError(t, err)
	got := attrsJSON(t, attrs...)
	require.Equal(t, sorted(t, string(want)), sorted(t, got))
	require.Len(t, got, len(want), "the same bytes in another order: a key comes once")
	for range 2 { // in the second round, the keys are cached
		require.Equal(t, got, attrsJSON(t, attrs...))
	}
}

func sorted(t *testing.T, text string) string {
	t.Helper()
	var v interface{}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

// An omitted group does not leave a comma, regardless of whether the keys are cached.
func TestCachedAttributesWithEmptyGroups(t *testing.T) {
	empty, full := slog.Group("g"), slog.Group("g", slog.Int("x", 1))
	for range 4 {
		require.Equal(t, `{"g":{"x":1},"remembered":2}`, attrsJSON(t, full, slog.Int("remembered", 2)))
		require.Equal(t, `{"remembered":2}`, attrsJSON(t, empty, slog.Int("remembered", 2)))
		require.Equal(t, `{"remembered":2}`, attrsJSON(t, slog.Int("remembered", 2), empty))
		require.Equal(t, `{}`, attrsJSON(t, empty))
	}
}

func TestAttributesAreAsTheirMap(t *testing.T) {
	for seed := range uint64(300) {
		sameAsMap(t, seed)
	}
}

func FuzzAttributesAreAsTheirMap(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(sameAsMap)
}

// FuzzAttributes checks that attributes with any keys and strings are encoded like the equivalent map.
func FuzzAttributes(f *testing.F) {
	f.Add("a", "x", "b", 1.5, int64(3), "a")
	f.Add("", "\xff", "a\"", math.NaN(), int64(-1), "\u2028")
	f.Fuzz(func(t *testing.T, k1, s, k2 string, n float64, i int64, k3 string) {
		// Different invalid bytes become the same character, so keys could become equal.
		k1, k2, k3 = strings.ToValidUTF8(k1, "?"), strings.ToValidUTF8(k2, "?"), strings.ToValidUTF8(k3, "?")
		attrs := []slog.Attr{slog.String(k1, s), slog.Float64(k2, n), slog.Group("g", slog.Int64(k3, i), slog.String(k1, s)), slog.Int64(k3, i)}
		inner := map[string]interface{}{k3: i}
		inner[k1] = s
		m := map[string]interface{}{k1: s}
		m[k2] = n
		m["g"] = inner
		m[k3] = i
		want, wantErr := AppendMap(nil, m, "properties")
		got, err := AppendAttrs(nil, nil, attrs, "properties", HashPath("properties"))
		if wantErr != nil {
			require.EqualError(t, err, wantErr.Error())
			return
		}
		require.NoError(t, err)
		require.Equal(t, sorted(t, string(want)), sorted(t, string(got)))
	})
}
