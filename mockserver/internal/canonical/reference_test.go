package canonical_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
)

// reference does what Append does by another way, the one that ECMAScript
// describes: decode to UTF-16, parse into a tree, write the tree.
func reference(doc []byte) (out string, err error) {
	defer func() {
		if recover() != nil { // also of an index out of range, at the text's end
			err = errors.New("no JSON")
		}
	}()
	p := &refParser{in: decodeUTF8(doc)}
	p.space()
	v := p.value(0)
	p.space()
	if p.pos != len(p.in) {
		panic("more")
	}
	var b strings.Builder
	v.write(&b)
	return b.String(), nil
}

// decodeUTF8 is the decoder of the Encoding Standard, state machine and all.
func decodeUTF8(in []byte) []uint16 {
	var out []uint16
	var point rune
	needed, seen := 0, 0
	lower, upper := byte(0x80), byte(0xBF)
	for i := 0; i < len(in); i++ {
		b := in[i]
		if needed == 0 {
			switch {
			case b <= 0x7F:
				out = append(out, uint16(b))
			case b >= 0xC2 && b <= 0xDF:
				needed, point = 1, rune(b&0x1F)
			case b >= 0xE0 && b <= 0xEF:
				if b == 0xE0 {
					lower = 0xA0
				}
				if b == 0xED {
					upper = 0x9F
				}
				needed, point = 2, rune(b&0xF)
			case b >= 0xF0 && b <= 0xF4:
				if b == 0xF0 {
					lower = 0x90
				}
				if b == 0xF4 {
					upper = 0x8F
				}
				needed, point = 3, rune(b&0x7)
			default:
				out = append(out, 0xFFFD)
			}
			continue
		}
		if b < lower || b > upper {
			needed, seen, lower, upper = 0, 0, 0x80, 0xBF
			i-- // read it again
			out = append(out, 0xFFFD)
			continue
		}
		lower, upper = 0x80, 0xBF
		point = point<<6 | rune(b&0x3F)
		if seen++; seen == needed {
			out = utf16.AppendRune(out, point)
			needed, seen = 0, 0
		}
	}
	if needed > 0 {
		out = append(out, 0xFFFD)
	}
	return out
}

// refValue is a value.
type refValue struct {
	kind   byte       // w, t, a, o: which of the fields count
	word   string     // true, false, null and numbers, as they are written
	text   []uint16   // a string
	keys   [][]uint16 // of an object
	values []refValue // of an object or array
}

type refParser struct {
	in  []uint16
	pos int
}

func (p *refParser) space() {
	for p.pos < len(p.in) && strings.ContainsRune(" \t\r\n", rune(p.in[p.pos])) {
		p.pos++
	}
}

func (p *refParser) eat(b uint16) bool {
	if p.in[p.pos] == b {
		p.pos++
		return true
	}
	return false
}

func (p *refParser) must(b uint16) {
	if !p.eat(b) {
		panic("unexpected")
	}
}

func (p *refParser) value(depth int) refValue {
	if b := p.in[p.pos]; (b == '{' || b == '[') && depth == canonical.MaxDepth {
		panic("too deep")
	}
	switch p.in[p.pos] {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		return refValue{kind: 't', text: p.text()}
	}
	return refValue{kind: 'w', word: p.word()}
}

func (p *refParser) array(depth int) refValue {
	v := refValue{kind: 'a'}
	p.must('[')
	p.space()
	for !p.eat(']') {
		if len(v.values) > 0 {
			p.must(',')
			p.space()
		}
		v.values = append(v.values, p.value(depth))
		p.space()
	}
	return v
}

func (p *refParser) object(depth int) refValue {
	v := refValue{kind: 'o'}
	p.must('{')
	p.space()
	for !p.eat('}') {
		if len(v.keys) > 0 {
			p.must(',')
			p.space()
		}
		key := p.text()
		p.space()
		p.must(':')
		p.space()
		value := p.value(depth)
		p.space()
		if i := slices.IndexFunc(v.keys, func(k []uint16) bool { return slices.Equal(k, key) }); i >= 0 {
			v.values[i] = value
			continue
		}
		v.keys, v.values = append(v.keys, key), append(v.values, value)
	}
	return v
}

func (p *refParser) text() []uint16 {
	text := []uint16{}
	p.must('"')
	for !p.eat('"') {
		u := p.in[p.pos]
		p.pos++
		switch {
		case u < ' ':
			panic("control")
		case u != '\\':
			text = append(text, u)
			continue
		}
		u = p.in[p.pos]
		p.pos++
		if u == 'u' {
			n, err := strconv.ParseUint(string(utf16.Decode(p.in[p.pos:p.pos+4])), 16, 16)
			if err != nil {
				panic(err)
			}
			p.pos += 4
			text = append(text, uint16(n))
			continue
		}
		i := strings.IndexRune(`"\/bfnrt`, rune(u))
		if u >= utf8.RuneSelf || i < 0 {
			panic("escape")
		}
		text = append(text, uint16("\"\\/\b\f\n\r\t"[i]))
	}
	return text
}

var refNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (p *refParser) word() string {
	start := p.pos
	for p.pos < len(p.in) && p.in[p.pos] < utf8.RuneSelf && strings.ContainsRune("+-.0123456789Eaeflnrstu", rune(p.in[p.pos])) {
		p.pos++
	}
	word := string(utf16.Decode(p.in[start:p.pos]))
	if word == "true" || word == "false" || word == "null" {
		return word
	}
	if !refNumber.MatchString(word) {
		panic("word")
	}
	return refNumberString(word)
}

// refNumberString is Number::toString of ECMA-262, by its steps.
func refNumberString(word string) string {
	f, _ := strconv.ParseFloat(word, 64)
	if math.IsInf(f, 0) {
		return "null"
	}
	if f == 0 {
		return "0"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(math.Abs(f), 'e', -1, 64), "e")
	s := strings.Replace(mantissa, ".", "", 1)
	e, _ := strconv.Atoi(exponent)
	k, n := len(s), e+1
	sign := ""
	if f < 0 {
		sign = "-"
	}
	switch {
	case k <= n && n <= 21:
		return sign + s + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return sign + s[:n] + "." + s[n:]
	case -6 < n && n <= 0:
		return sign + "0." + strings.Repeat("0", -n) + s
	}
	if k > 1 {
		s = s[:1] + "." + s[1:]
	}
	return fmt.Sprintf("%s%se%+d", sign, s, n-1)
}

func (v refValue) write(b *strings.Builder) {
	switch v.kind {
	case 'w':
		b.WriteString(v.word)
	case 't':
		refQuote(b, v.text)
	case 'a':
		b.WriteByte('[')
		for i, e := range v.values {
			if i > 0 {
				b.WriteByte(',')
			}
			e.write(b)
		}
		b.WriteByte(']')
	case 'o':
		b.WriteByte('{')
		for i, m := range v.order() {
			if i > 0 {
				b.WriteByte(',')
			}
			refQuote(b, v.keys[m])
			b.WriteByte(':')
			v.values[m].write(b)
		}
		b.WriteByte('}')
	}
}

// order lists the members: array indices ascending, then the others as they came.
func (v refValue) order() []int {
	var indices, names []int
	number := map[int]uint64{}
	for i, key := range v.keys {
		text := string(utf16.Decode(key))
		n, err := strconv.ParseUint(text, 10, 32)
		if err == nil && n < math.MaxUint32 && strconv.FormatUint(n, 10) == text {
			indices, number[i] = append(indices, i), n
			continue
		}
		names = append(names, i)
	}
	slices.SortFunc(indices, func(a, b int) int { return cmp.Compare(number[a], number[b]) })
	return append(indices, names...)
}

// refQuote is QuoteJSONString of ECMA-262.
func refQuote(b *strings.Builder, text []uint16) {
	b.WriteByte('"')
	for i := 0; i < len(text); i++ {
		u := rune(text[i])
		if utf16.IsSurrogate(u) && i+1 < len(text) {
			if pair := utf16.DecodeRune(u, rune(text[i+1])); pair != utf8.RuneError {
				b.WriteRune(pair)
				i++
				continue
			}
		}
		short := strings.IndexRune("\b\t\n\f\r\"\\", u)
		switch {
		case u < utf8.RuneSelf && short >= 0:
			b.WriteString(`\` + `btnfr"\`[short:short+1])
		case u < ' ' || utf16.IsSurrogate(u):
			fmt.Fprintf(b, `\u%04x`, u)
		default:
			b.WriteRune(u)
		}
	}
	b.WriteByte('"')
}
