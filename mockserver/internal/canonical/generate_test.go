package canonical_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// A generator generates difficult documents. The same seed generates the same documents.
type generator struct {
	rand *rand.Rand
	out  strings.Builder
}

func newGenerator(seed uint64) *generator {
	return &generator{rand: rand.New(rand.NewPCG(seed, 1))}
}

// document returns the next document. One of sixteen documents has a changed byte and may be invalid.
func (g *generator) document() []byte {
	g.out.Reset()
	switch g.rand.IntN(2048) {
	case 0:
		g.deep(1 + g.rand.IntN(jsonscan.MaxDepth))
	case 1, 2, 3, 4:
		g.object(0, 20+g.rand.IntN(100))
	default:
		g.space()
		if g.rand.IntN(4) > 0 {
			g.object(0, 1+g.rand.IntN(6))
		} else {
			g.value(0)
		}
		g.space()
	}
	doc := []byte(g.out.String())
	if g.rand.IntN(16) == 0 {
		g.damage(doc)
	}
	return doc
}

func (g *generator) damage(doc []byte) {
	const bytes = "\"\\{}[]:,0123456789eE+-.truefalsn u\x00\x1f\x7f\x80\xbf\xc0\xc2\xe2\xed\xef\xf0\xf4\xff"
	doc[g.rand.IntN(len(doc))] = bytes[g.rand.IntN(len(bytes))]
}

func pick[T any](g *generator, list []T) T { return list[g.rand.IntN(len(list))] }

func (g *generator) space() {
	for g.rand.IntN(8) == 0 {
		g.out.WriteByte(" \t\r\n"[g.rand.IntN(4)])
	}
}

func (g *generator) value(depth int) {
	kinds := 9
	if depth > 4 {
		kinds = 5
	}
	switch g.rand.IntN(kinds) {
	case 0, 1:
		g.str()
	case 2, 3:
		g.number()
	case 4:
		g.out.WriteString(pick(g, []string{"true", "false", "null"}))
	case 5:
		g.array(depth)
	default:
		g.object(depth, g.rand.IntN(5))
	}
}

// deep generates nested arrays and objects.
func (g *generator) deep(depth int) {
	closing := make([]byte, depth)
	for i := range closing {
		if g.rand.IntN(2) == 0 {
			g.out.WriteByte('[')
			closing[depth-1-i] = ']'
			continue
		}
		g.out.WriteByte('{')
		if g.rand.IntN(8) == 0 {
			g.out.WriteString(`"b":1,"7":2,`)
		}
		g.key()
		g.out.WriteByte(':')
		closing[depth-1-i] = '}'
	}
	g.number()
	g.out.Write(closing)
}

func (g *generator) array(depth int) {
	g.out.WriteByte('[')
	for i := range g.rand.IntN(4) {
		if i > 0 {
			g.out.WriteByte(',')
		}
		g.space()
		g.value(depth + 1)
		g.space()
	}
	g.out.WriteByte(']')
}

func (g *generator) object(depth, members int) {
	g.out.WriteByte('{')
	for i := range members {
		if i > 0 {
			g.out.WriteByte(',')
		}
		g.space()
		g.key()
		g.space()
		g.out.WriteByte(':')
		g.space()
		g.value(depth + 1)
		g.space()
	}
	g.out.WriteByte('}')
}

var hardKeys = []string{
	"0", "1", "2", "9", "10", "100", "00", "01", "-0", "-1", "+1", "1.0", "1e3", " 1", "1 ", "0x1",
	"2147483647", "2147483648", "4294967293", "4294967294", "4294967295", "4294967296", "9007199254740993",
	"99999999999", "", "a", "b", "userId", "__proto__", "constructor", "toString", "hasOwnProperty", "length",
	"toJSON", "then", "get", "é", "\u2028", "😀", `\u0061`, `\u0031`, `\u0031\u0030`, `\u005f_proto__`, `\ud800`, `\uDC00`, `\ud83d\ude00`,
	`\/`, `\"`, `\\`, `\u0000`, "\x80", "\xed\xa0\x80",
}

func (g *generator) key() {
	switch g.rand.IntN(6) {
	case 0:
		fmt.Fprintf(&g.out, `"%d"`, g.rand.IntN(200))
	case 1:
		g.str()
	default:
		g.out.WriteString(`"` + pick(g, hardKeys) + `"`)
	}
}

var hardText = []string{
	`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u0008`, `\u0009`, `\u000A`, `\u000b`, `\u000c`, `\u000D`,
	`\u001f`, `\u001F`, `\u0020`, `\u0022`, `\u002f`, `\u003c`, `\u005C`, `\u007f`, `\u0080`, `\u00e9`, `\u07FF`, `\u0800`,
	`\u2028`, `\u2029`, `\uD7FF`, `\uE000`, `\uFEFF`, `\ufffd`, `\uffff`,
	`\ud800`, `\uD800`, `\uDBFF`, `\udbff`, `\uDC00`, `\udfff`, `\uDFFF`, `\ud83d\ude00`, `\uD83D\uDE00`, `\ud800\ud800`, `\udc00\ud800`, `\ud83d\u0041`, `\ud83d\n`,
	"<", ">", "&", "/", "'", "\x7f", "\u0080", "é", "€", "\u2028", "\u2029", "\ufeff", "\uffff", "😀", "\U0010FFFF",
	"\x80", "\xbf", "\xc0\x80", "\xc1", "\xc2", "\xe0\x80\x80", "\xe0\xa0", "\xe2\x82", "\xed\xa0\x80", "\xed\xbf\xbf", "\xef\xbb", "\xf0\x80\x80\x80",
	"\xf0\x90\x80", "\xf0\x9f\x98", "\xf4\x8f\xbf", "\xf4\x90\x80\x80", "\xf5", "\xfe", "\xff", "\xe2\x28\xa1", "\xf0\x28\x8c\x28", "\xe2\x82\xe2\x82\xac",
}

func (g *generator) str() {
	g.out.WriteByte('"')
	for range g.rand.IntN(6) {
		switch g.rand.IntN(4) {
		case 0:
			fmt.Fprintf(&g.out, `\u%0*x`, 4, g.rand.IntN(1<<16))
		case 1:
			g.out.WriteString("abcdefghij klm"[:g.rand.IntN(14)])
		default:
			g.out.WriteString(pick(g, hardText))
		}
	}
	g.out.WriteByte('"')
}

var hardNumbers = []string{
	"0", "-0", "0.0", "-0.0", "0e0", "-0e5", "1.0", "1.50", "10", "100e-2", "1E5", "1e+5", "1e05", "12e-0",
	"1e20", "1e21", "123e19", "999999999999999999999", "1000000000000000000000", "1e-6", "1e-7", "0.000001", "0.0000001", "0.00000123", "123456e-11",
	"1e400", "-1e400", "1e309", "1e308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "5e-324", "4e-324", "2e-324", "1e-400", "-1e-400",
	"9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "12345678901234567890", "18446744073709551615",
	"0.1", "0.2", "0.30000000000000004", "1.005", "123456789.123456789", "0.1000000000000000055511151231257827", "2.2250738585072014e-308", "2.225073858507201e-308",
	"999999999999999", "9999999999999999", "1234567890.12345", "12345678901.12345", "0.123456", "0.1234567",
}

func (g *generator) number() {
	switch g.rand.IntN(6) {
	case 0:
		g.out.WriteString(strconv.Itoa(g.rand.IntN(100000) - 50000))
	case 1:
		f := math.Float64frombits(g.rand.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 0.5
		}
		g.out.WriteString(strconv.FormatFloat(f, "efg"[g.rand.IntN(3)], g.rand.IntN(20)-1, 64))
	case 2:
		fmt.Fprintf(&g.out, "%d.%0*d", g.rand.IntN(1000), 1+g.rand.IntN(17), g.rand.IntN(1000))
	case 3:
		fmt.Fprintf(&g.out, "%de%d", g.rand.IntN(1000), g.rand.IntN(700)-350)
	default:
		g.out.WriteString(pick(g, hardNumbers))
	}
}
