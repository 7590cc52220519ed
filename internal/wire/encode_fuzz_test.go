package wire

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// builder builds Go values from the fuzzer's input.
type builder struct {
	data []byte
	left int // number of values that the builder may still create
}

func (b *builder) byte() byte {
	if len(b.data) == 0 {
		return 0
	}
	c := b.data[0]
	b.data = b.data[1:]
	return c
}

func (b *builder) uint64() uint64 {
	var w [8]byte
	b.data = b.data[copy(w[:], b.data):]
	return binary.LittleEndian.Uint64(w[:])
}

func (b *builder) bytes() []byte {
	n := min(int(b.byte()%40), len(b.data))
	s := b.data[:n]
	b.data = b.data[n:]
	return s
}

func (b *builder) string() string { return string(b.bytes()) }

func (b *builder) float() float64 {
	switch b.byte() % 3 {
	case 0:
		return float64(int64(b.uint64())%1e13) / 1e4
	case 1:
		return float64(int8(b.byte())) * math.Pow10(int(int8(b.byte()))/4)
	}
	return math.Float64frombits(b.uint64())
}

func (b *builder) object() map[string]interface{} {
	m := map[string]interface{}{}
	for n := b.byte() % 12; n > 0 && b.left > 0; n-- {
		m[b.string()] = b.value()
	}
	return m
}

func (b *builder) list() []interface{} {
	var l []interface{}
	for n := b.byte() % 6; n > 0 && b.left > 0; n-- {
		l = append(l, b.value())
	}
	return l
}

func (b *builder) value() interface{} {
	b.left--
	kinds := []func() interface{}{
		func() interface{} { return nil },
		func() interface{} { return b.string() },
		func() interface{} { return b.byte() < 128 },
		func() interface{} { return int(b.uint64()) },
		func() interface{} { return int8(b.byte()) },
		func() interface{} { return uint16(b.uint64()) },
		func() interface{} { return b.uint64() },
		func() interface{} { return time.Duration(b.uint64()) },
		func() interface{} { return b.float() },
		func() interface{} { return float32(b.float()) },
		func() interface{} { return json.Number(b.string()) },
		func() interface{} { return time.Unix(int64(b.uint64())>>b.byte(), int64(b.byte())).UTC() },
		func() interface{} {
			return time.Unix(int64(b.byte()), 0).In(time.FixedZone("", int(int32(b.uint64())>>b.byte())))
		},
		func() interface{} { return b.object() },
		func() interface{} { return b.list() },
		func() interface{} { return namedMap(b.object()) },
		func() interface{} { return namedList(b.list()) },
		func() interface{} { return map[string]string{b.string(): b.string(), b.string(): ""} },
		func() interface{} { return map[string]float64{b.string(): b.float(), b.string(): 0} },
		func() interface{} { return map[string]int{b.string(): int(b.byte()), b.string(): 0} },
		func() interface{} { return []string{b.string(), b.string()} },
		func() interface{} { return []float64{b.float()} },
		func() interface{} { return []map[string]interface{}{b.object(), nil} },
		func() interface{} { return b.bytes() },
		func() interface{} { return json.RawMessage(b.bytes()) },
		func() interface{} { return rawJSON{b.string()} },
		func() interface{} { return textual{b.string()} },
		func() interface{} { return namedString(b.string()) },
		func() interface{} { return namedFloat(b.float()) },
		func() interface{} { return pointerTo(b.value()) },
		func() interface{} { return pointerTo(b.float()) },
		func() interface{} { return &record{Name: b.string(), Any: b.value(), Extra: b.object()} },
		func() interface{} { return record{Any: b.value(), Pointed: byPointer{b.string()}} },
		func() interface{} { return map[int16]interface{}{int16(b.uint64()): b.value()} },
		func() interface{} { return stringKeyed{namedString(b.string()): b.value()} },
		func() interface{} { return make(chan int) },
	}
	return kinds[int(b.byte())%len(kinds)]()
}

func FuzzEncoderLikeEncodingJSON(f *testing.F) {
	f.Add([]byte{})
	for kind := range 40 {
		f.Add(append([]byte{4, 1, 'b', byte(kind)}, "\x05some\xff\x0412.50\x03[1]\x02{}\"\\\u2028 and more of it, 1e400 0x1"...))
		f.Add([]byte{11, 1, 'k', byte(kind), 9, 'a', 'b', 'c', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &builder{data: data, left: 200}
		checkLikeReference(t, b.object())
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "12345678", "1234567\"", "\xe2\x80\xa8", "\xe2\x80", "long enough for words é", "\x1f\x20\x7f\x80", "\"\"\"\"\"\"\"\"\"", "\\\x00\\\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := reference(s)
		if err != nil {
			t.Fatal(err)
		}
		got := string(AppendString([]byte("<"), s))
		// GOEXPERIMENT=jsonv2 does not escape U+FFFD.
		if plain := strings.NewReplacer(`\ufffd`, "\ufffd"); plain.Replace(got) != "<"+plain.Replace(string(want)) {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func FuzzAppendInt(f *testing.F) {
	for _, n := range []int64{0, 9, 10, 99, 100, 999, 1000, 9999, 10_000, -1, -10_000, math.MinInt64, math.MaxInt64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		for _, n := range []int64{n, n % 20_000} {
			if got, want := string(AppendInt(nil, n)), strconv.FormatInt(n, 10); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			if got, want := string(AppendUint(nil, uint64(n))), strconv.FormatUint(uint64(n), 10); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	})
}

func FuzzAppendFloat(f *testing.F) {
	for _, v := range []float64{0, 1, 0.1, 49.95, 1e11, 99999999999.9999, 1e-4, 1e-7, 1e21, 0.30000000000000004} {
		f.Add(math.Float64bits(v))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		for _, v := range []float64{math.Float64frombits(bits), float64(int64(bits)>>16) / 1e4, float64(int64(bits)>>24) / 100} {
			want, wantErr := reference(v)
			got, err := appendFloat(nil, v, 64)
			if (err == nil) != (wantErr == nil) || err == nil && string(got) != string(want) {
				t.Fatalf("got %s, %v; want %s, %v", got, err, want, wantErr)
			}
		}
	})
}

func FuzzNumberGrammar(f *testing.F) {
	for _, s := range []string{"0", "-0", "01", "1.5e-3", "1e", "", "+1", ".5", "NaN", "1E+2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, wantErr := reference(json.Number(s))
		got, err := appendNumber(nil, json.Number(s))
		if (err == nil) != (wantErr == nil) || err == nil && string(got) != string(want) {
			t.Fatalf("got %s, %v; want %s, %v", got, err, want, wantErr)
		}
	})
}
