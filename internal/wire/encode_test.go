package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// encoding/json encodes the following types in a special way.
type (
	namedString string
	namedInt    int32
	namedFloat  float32
	namedMap    map[string]interface{}
	namedList   []interface{}
	stringKeyed map[namedString]interface{}

	textual struct{ s string }
	rawJSON struct{ s string }
	failing struct{}
	burning struct{}

	byPointer struct{ S string }

	record struct {
		Name    string                 `json:"name"`
		Hidden  chan int               `json:"-"`
		Inner   *record                `json:"inner,omitempty"`
		Any     interface{}            `json:"any"`
		Pointed byPointer              `json:"pointed"`
		Extra   map[string]interface{} `json:"extra,omitempty"`
	}
	linked  struct{ Next *linked }
	looping *looping
)

func (t textual) MarshalText() ([]byte, error)    { return []byte(t.s), nil }
func (r rawJSON) MarshalJSON() ([]byte, error)    { return []byte(r.s), nil }
func (failing) MarshalJSON() ([]byte, error)      { return nil, errors.New("refused") }
func (burning) MarshalJSON() ([]byte, error)      { panic("on fire") }
func (p *byPointer) MarshalJSON() ([]byte, error) { return json.Marshal("by pointer " + p.S) }

func init() { cacheOdds = 1 }

// reference encodes a value with encoding/json and without HTML escaping.
func reference(v interface{}) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// tokens returns the JSON tokens of text. Numbers keep their digits. If two texts have equal tokens,
// they contain the same values and the same order of keys.
func tokens(t testing.TB, text []byte) (list []json.Token) {
	t.Helper()
	require.True(t, json.Valid(text), "not JSON: %.200q", text)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for dec.More() {
		tok, err := dec.Token()
		require.NoError(t, err)
		list = append(list, tok)
	}
	return list
}

// checkLikeReference compares the encoder with encoding/json. It encodes the map three times: the
// first two times cache the key sets, and the third time uses them.
func checkLikeReference(t testing.TB, m map[string]interface{}) {
	t.Helper()
	want, wantErr := reference(m)
	for range 3 {
		got, err := AppendMap([]byte("before"), m, "properties")
		if wantErr != nil || err != nil {
			require.Equal(t, "before", string(got))
			require.Error(t, err, "encoding/json: %v", wantErr)
			require.Error(t, wantErr, "ours: %v", err)
			require.True(t, strings.HasPrefix(err.Error(), "properties"), err)
			continue
		}
		text := bytes.TrimPrefix(got, []byte("before"))
		require.True(t, utf8.Valid(text))
		if diff := cmp.Diff(tokens(t, want), tokens(t, text)); diff != "" {
			t.Fatalf("encoding/json (-) and ours (+) differ:\n%s", diff)
		}
	}
}

// raceDetector reports whether the tests run under the race detector.
var raceDetector bool

func pointerTo[T any](v T) *T { return &v }

func TestEncoderMatchesEncodingJSON(t *testing.T) {
	zone := time.FixedZone("", 5*3600+1800)
	values := []interface{}{
		nil, true, false, "", "plain", "quote\" slash\\ / <b>&amp;", "\x00\b\f\n\r\t\x1f\x7f", "naïve 日本 🎉\u2028\u2029",
		"bad \xff\xc3 utf8 \xed\xa0\x80", strings.Repeat("x", 100) + "\"",
		0, -1, int64(math.MaxInt64), int64(math.MinInt64), int8(-8), int16(16), int32(-32), int64(64),
		uint(1), uint8(8), uint16(16), uint32(32), uint64(math.MaxUint64), uintptr(7), time.Minute,
		0.0, math.Copysign(0, -1), 1.5, -49.95, 0.1, 0.0001, 0.00012, 1e-6, 9.99e-7, 1e20, 1e21, 123456789.1234, 99999999999.9999,
		5e-324, math.MaxFloat64, 1.0 / 3, float32(0.1), float32(1e-7), float32(3e21), float32(16777216), 2e11, 1e-9,
		math.NaN(), math.Inf(1), math.Inf(-1), float32(math.Inf(-1)),
		json.Number("12"), json.Number(""), json.Number("-0.5e+10"), json.Number("01"), json.Number("1."), json.Number("-"), json.Number("1e"), json.Number("0x1"), json.Number("1 "),
		time.Date(2024, 2, 29, 23, 59, 59, 123456789, zone), time.Time{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Now(),
		map[string]interface{}{}, map[string]interface{}(nil), map[string]interface{}{"b": 1, "a": map[string]interface{}{"z": "", "\xff": 2, "y\n": nil}},
		[]interface{}{}, []interface{}(nil), []interface{}{1, "two", []interface{}{3.5}, nil},
		[]string{"a", "\n"}, []string(nil), []int{1, -2}, []int64{3}, []float64{1.5, 2}, []float64{math.NaN()}, []bool{true}, []uint{1}, []int32{5},
		[]map[string]interface{}{{"a": 1}, nil}, map[string]string{"k": "v", "a\"": "b"}, map[string]int{"x": 1, "a": 2}, map[string]int64{"q": 1},
		map[string]float64{"n": 0.5}, map[string]float64{"n": math.NaN()}, map[string]bool{"t": true}, map[string]string(nil), map[int]string{2: "b", 10: "a"},
		[]byte("bytes"), []byte(nil), []byte{}, [2]string{"x", "y"},
		json.RawMessage(` { "a" : [ 1 , "x y" ] } `), json.RawMessage(nil), json.RawMessage(""), json.RawMessage("{"), json.RawMessage("1 2"), json.RawMessage(`"<\u2028>"`),
		pointerTo("s"), pointerTo(true), pointerTo(1), pointerTo(int64(2)), pointerTo(2.5), pointerTo(time.Unix(0, 0)), (*string)(nil), (*time.Time)(nil), (*int)(nil),
		(*bool)(nil), (*int64)(nil), (*float64)(nil), pointerTo(pointerTo("twice")), pointerTo(json.Number("x")), pointerTo[interface{}]([]interface{}{1}), (*record)(nil),
		pointerTo(map[string]interface{}{"p": 1}), pointerTo(json.RawMessage("[ ]")),
		namedString("n\n"), namedInt(-3), namedFloat(0.3), namedMap{"b": 1, "a": namedMap(nil)}, namedList{1, namedList{}}, stringKeyed{"k": 1},
		textual{"<t>\xff"}, &textual{"p"}, (*textual)(nil), map[textual]int{{"k"}: 1}, rawJSON{` [ 1 , "\xff" ] `}, &rawJSON{"true"}, rawJSON{"{"}, rawJSON{""}, failing{},
		byPointer{"v"}, &byPointer{"p"}, []byPointer{{"e"}}, []*byPointer{{"e"}}, map[string]byPointer{"k": {"v"}},
		record{Name: "r"}, &record{Name: "r", Inner: &record{Any: []interface{}{namedInt(1)}}, Extra: map[string]interface{}{"<": ">"}}, record{Any: math.NaN()}, record{Any: make(chan int)},
		big.NewInt(1 << 62), net.IPv4(127, 0, 0, 1), errors.New("text"), struct{}{}, time.March,
		make(chan int), func() {}, complex(1, 2), []interface{}{make(chan int)}, map[string]chan int{"c": nil}, []complex64{},
	}
	for i, v := range values {
		t.Run(fmt.Sprintf("%d %T", i, v), func(t *testing.T) {
			checkLikeReference(t, map[string]interface{}{"value": v})
			checkLikeReference(t, map[string]interface{}{"list": []interface{}{v, v}, "map": map[string]interface{}{"deep": v, "other": 1}})
		})
	}
}

func TestEncoderErrorsNameTheField(t *testing.T) {
	cycle := map[string]interface{}{}
	cycle["self"] = cycle
	list := []interface{}{nil}
	list[0] = list
	var loop looping
	loop = &loop
	ring := &linked{}
	ring.Next = ring
	wide := []interface{}{"twice as long"}
	for range 60 {
		wide = []interface{}{wide, wide}
	}
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for _, c := range []struct {
		name  string
		value interface{}
		want  string
	}{
		{"NaN", map[string]interface{}{"total": math.NaN()}, "properties.cart.total: json: unsupported value: NaN"},
		{"infinity", math.Inf(-1), "properties.cart: json: unsupported value: -Inf"},
		{"in a list", []interface{}{1, map[string]interface{}{"x": []float64{1, math.NaN()}}}, "properties.cart[1].x[1]: json: unsupported value: NaN"},
		{"in named types", namedMap{"a": namedList{math.Inf(1)}}, "properties.cart.a[0]: json: unsupported value: +Inf"},
		{"keys that read as paths", map[string]interface{}{"a.b": map[string]interface{}{"Plan Name": map[string]interface{}{"\n": math.NaN()}}}, `properties.cart["a.b"].Plan Name["\n"]: json: unsupported value: NaN`},
		{"channel", make(chan int), "properties.cart: json: unsupported type: chan int"},
		{"number", json.Number("1,5"), `properties.cart: json.Number "1,5" is not a JSON number`},
		{"raw", json.RawMessage(`{"a":}`), "properties.cart: json.RawMessage: invalid character '}' looking for beginning of value"},
		{"marshaler", failing{}, "properties.cart: json: error calling MarshalJSON for type wire.failing: refused"},
		{"panic", []interface{}{burning{}}, "properties.cart[0]: marshaling a wire.burning panicked: on fire"},
		{"year", time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), "properties.cart: Time.AppendText: year outside of range [0,9999]"},
		{"cycle of maps", cycle, "properties.cart" + strings.Repeat(".self", 6) + "…" + strings.Repeat(".self", 8) + ": nested deeper than 990 levels, perhaps a cycle"},
		{"cycle of slices", list, "properties.cart" + strings.Repeat("[0]", 6) + "…" + strings.Repeat("[0]", 8) + ": nested deeper than 990 levels, perhaps a cycle"},
		{"cycle of pointers", loop, "properties.cart: nested deeper than 990 levels, perhaps a cycle"},
		{"cycle of structs", ring, "properties.cart: json: unsupported value: encountered a cycle via *wire.linked"},
		{"deep raw", json.RawMessage(deep), "properties.cart: nested deeper than 990 levels, perhaps a cycle"},
		{"deep marshaler", rawJSON{deep}, "properties.cart: nested deeper than 990 levels, perhaps a cycle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendMap([]byte("x"), map[string]interface{}{"cart": c.value}, "properties")
			require.Error(t, err)
			// With GOEXPERIMENT=jsonv2, MarshalJSON is called with a pointer.
			require.Equal(t, c.want, strings.ReplaceAll(err.Error(), "type *", "type "))
			require.Equal(t, "x", string(got))
		})
	}
	t.Run("shared without end", func(t *testing.T) {
		_, err := AppendMap(nil, map[string]interface{}{"cart": wide}, "properties")
		require.ErrorIs(t, err, ErrTooLarge)
	})
}

func TestEncoderKeepsToTheDepthLimit(t *testing.T) {
	nested := func(levels int) map[string]interface{} {
		m := map[string]interface{}{}
		for range levels - 1 {
			m = map[string]interface{}{"m": m}
		}
		return m
	}
	checkLikeReference(t, nested(MaxDepth))
	checkLikeReference(t, map[string]interface{}{"in a struct": record{Any: nested(MaxDepth - 2)}})
	_, err := AppendMap(nil, nested(MaxDepth+1), "context")
	require.ErrorIs(t, err, ErrTooDeep)
	_, err = AppendMap(nil, map[string]interface{}{"in a struct": record{Any: nested(MaxDepth - 1)}}, "context")
	require.ErrorIs(t, err, ErrTooDeep)
}

// TestDepthLimitOfTypedValues checks that each typed map and slice counts as one level.
func TestDepthLimitOfTypedValues(t *testing.T) {
	for _, test := range []struct {
		levels int
		value  interface{}
	}{
		{1, []string{"s"}}, {1, []int{1}}, {1, []int64{1}}, {1, []float64{1}}, {1, []bool{true}}, {1, []interface{}{1}},
		{1, map[string]string{"k": "v"}}, {1, map[string]int{"k": 1}}, {1, map[string]int64{"k": 1}}, {1, map[string]float64{"k": 1}}, {1, map[string]bool{"k": true}},
		{2, []map[string]interface{}{{"k": 1}}},
	} {
		m := map[string]interface{}{"m": test.value}
		for range MaxDepth - test.levels - 1 {
			m = map[string]interface{}{"m": m}
		}
		_, err := AppendMap(nil, m, "context")
		require.NoError(t, err, "%T", test.value)
		_, err = AppendMap(nil, map[string]interface{}{"m": m}, "context")
		require.ErrorIs(t, err, ErrTooDeep, "%T", test.value)
	}
}

// TestStringsWithOneCharacterToEscape covers each length and position of the word-wise check.
func TestStringsWithOneCharacterToEscape(t *testing.T) {
	for n := 1; n <= 17; n++ {
		for i := range n {
			for c := range byte(utf8.RuneSelf) {
				s := strings.Repeat("x", i) + string(rune(c)) + strings.Repeat("x", n-i-1)
				text := AppendString(nil, s)
				var got string
				require.NoError(t, json.Unmarshal(text, &got), "%q", s)
				if got != s {
					t.Fatalf("%q was encoded as %s", s, text)
				}
			}
		}
	}
}

// The cache distinguishes maps that have the same position and number of keys but different keys.
func TestKeySetsAreVerified(t *testing.T) {
	for round := range 20 {
		for variant := range 12 {
			m := map[string]interface{}{"common": round, "nested": map[string]interface{}{fmt.Sprint("n", variant%5): 1}}
			m[fmt.Sprint("key", variant)] = variant
			m["\xff"+strings.Repeat("q", variant)] = nil
			checkLikeReference(t, m)
		}
	}
	for _, n := range []int{1, 7, 8, 9, maxKeys, maxKeys + 1, 3000} {
		m := map[string]interface{}{}
		for i := range n {
			m[fmt.Sprint("key ", i)] = i
		}
		checkLikeReference(t, m)
	}
}

func TestKeySetsAreBounded(t *testing.T) {
	for i := range 20_000 {
		m := map[string]interface{}{fmt.Sprint("key ", i): i, strings.Repeat("long", 200): 1, strings.Repeat("longer", 200): 2}
		for range 3 {
			_, err := AppendMap(nil, m, "traits")
			require.NoError(t, err)
		}
	}
	n := 0
	for i := range keySets.ofMaps {
		for j := range keySets.ofMaps[i] {
			if s := keySets.ofMaps[i][j].Load(); s != nil {
				n++
				size := 0
				for _, f := range s.fields {
					size += len(f.text)
				}
				require.LessOrEqual(t, size, maxKeysText)
			}
		}
	}
	require.LessOrEqual(t, n, keySetBuckets*keySetWays)
}

func TestEncoderConcurrentSafe(t *testing.T) {
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 500 {
				m := map[string]interface{}{"a": i, fmt.Sprint("k", (i+g)%40): map[string]interface{}{"x": 1, fmt.Sprint(i % 7): 2}}
				want, _ := reference(m)
				got, err := AppendMap(nil, m, "properties")
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %s, want %s, error %v", got, want, err)
					return
				}
				clear(m) // the caller may change the map afterwards
			}
		})
	}
	group.Wait()
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector a sync.Pool loses some of what it is given")
	}
	buffer := make([]byte, 0, 4<<10)
	for name, c := range map[string]testCall{"S": smallCall(), "L": largeCall()} {
		got := testing.AllocsPerRun(1000, func() {
			if _, err := c.appendTo(buffer[:0]); err != nil {
				t.Error(err)
			}
		})
		require.Zero(t, got, name)
	}
	got := testing.AllocsPerRun(1000, func() {
		b := AppendID(buffer[:0])
		b = AppendTime(b, time.Now())
		AppendString(b, "caf\xe9 \"<\u2028>\"")
	})
	require.Zero(t, got)
	f, now := 0.1234567, time.Now()
	types := map[string]interface{}{
		"a": []string{"x"}, "b": map[string]string{"k": "v"}, "c": now, "d": json.Number("1"), "i": []int{1, 2},
		"j": map[string]int{"x": 1}, "k": []map[string]interface{}{{"a": nil}}, "l": json.RawMessage(`{"a": 1}`), "m": f, "n": float32(f), "o": uint8(1), "p": []byte("x"),
		"q": time.Second, "r": []interface{}{1, true}, "s": math.Pi, "t": []float64{1}, "u": map[string]float64{"f": 1}, "v": map[string]bool{"b": true},
	}
	for i := range 100 { // more keys than a key set can have
		types[fmt.Sprint("extra", i)] = i
	}
	got = testing.AllocsPerRun(100, func() {
		if _, err := AppendMap(buffer[:0], types, "traits"); err != nil {
			t.Error(err)
		}
	})
	require.Zero(t, got, "the types named in AppendValue, and numbers of any size")
}

// A cached key is a copy. Otherwise the cache could keep a larger string in memory.
func TestKeySetsCopyTheirKeys(t *testing.T) {
	freed := make(chan struct{})
	func() {
		large := bytes.Repeat([]byte("k"), 1<<20)
		body := string(large)
		runtime.AddCleanup(&large[0], func(struct{}) { close(freed) }, struct{}{})
		for range 4 {
			_, err := AppendMap(nil, map[string]interface{}{body[:9]: 1}, "cut")
			require.NoError(t, err)
		}
	}()
	runtime.GC()
	<-freed
}

func TestAppendTime(t *testing.T) {
	zone := time.FixedZone("", -7*3600)
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, zone), time.Date(0, 1, 1, 0, 0, 0, 1e6, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 50e6, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5, 6, 7, 0, 0, 0, 0, time.UTC), time.Now(),
	} {
		want := at.UTC().Format("2006-01-02T15:04:05.000Z")
		require.Equal(t, want, string(AppendTime(nil, at)))
		if len(want) == TimeLen {
			require.Equal(t, want, string(AppendNow(nil, at.UnixMilli())))
			require.Equal(t, want, string(AppendNow(nil, at.UnixMilli())))
		}
	}
}

// point implements Appender, like types in other packages of this module.
type point struct{ x, y float64 }

func (p *point) AppendTo(dst Buffer) (Buffer, error) {
	out, err := AppendFloat(append(dst, '['), p.x)
	if err != nil {
		return dst, err
	}
	if out, err = AppendFloat(append(out, ','), p.y); err != nil {
		return dst, err
	}
	return append(out, ']'), nil
}

func TestAppender(t *testing.T) {
	got, err := AppendMap([]byte("x"), map[string]interface{}{"a": 1, "at": &point{1.5, -2}, "b": []interface{}{&point{}}}, "m")
	require.NoError(t, err)
	require.Equal(t, `x{"a":1,"at":[1.5,-2],"b":[[0,0]]}`, string(got))

	got, err = AppendMap([]byte("x"), map[string]interface{}{"at": []interface{}{&point{1, math.NaN()}}}, "m")
	require.EqualError(t, err, "m.at[0]: json: unsupported value: NaN")
	require.Equal(t, "x", string(got))
}
