package webhook

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest in a document.
const MaxDepth = 1000

// Canonical appends to dst the canonical form of the JSON document src and
// returns the extended buffer: the text that JSON.stringify(JSON.parse(src))
// gives in JavaScript. The form is a fixpoint, Canonical of it is itself, so a
// receiver computes the same signature over the raw bytes and over what its
// own JSON.stringify makes of the parsed body.
//
// White space goes. Of an object's keys the array indices "0" to "4294967294"
// come first, ascending, and the others keep their order; of duplicate keys the
// last value stands in the first one's place. Numbers are written as ECMAScript
// writes a double (1.0 is 1, -0 is 0, 1e400 is null). Strings are escaped no
// more than they must be; a lone surrogate stays an escape, and each maximal
// part of an invalid UTF-8 sequence becomes U+FFFD.
//
// Input that is canonical already is checked in one pass and copied in one
// piece. dst and src must not overlap. On an error, which names the offset in
// src, dst is returned as it was. Safe for concurrent use.
func Canonical(dst, src []byte) ([]byte, error) {
	c := newCanonizer(src)
	defer c.release()
	c.dst, c.origin = dst, len(dst)
	if err := c.document(); err != nil {
		return dst, err
	}
	out := c.dst
	c.dst = nil
	return out, nil
}

// canonizer turns src into canonical text in one pass. What is canonical as it
// stands is not copied token by token: src[from:pos] is the run that waits to be
// copied, and only something that must change ends the run.
type canonizer struct {
	src    []byte
	pos    int    // next byte of src to read
	from   int    // start of the run of src that goes to dst as it is
	dst    []byte // the output up to that run
	origin int    // where in dst this document starts

	members []member // the members of all objects now open, innermost last
	rewrite []byte   // texts of keys that had to change, referred to by members
	scratch []byte   // an object's text while it is put in another order
	notes   *recorder
}

// member is one member of an object. Offsets count in the output, as if the run
// that waits had been copied.
type member struct {
	key        []byte // canonical text, with its quotes
	index      int64  // the array index that the key is, or notIndex
	value, end int
}

// notIndex sorts a key that is no array index behind all that are.
const notIndex = math.MaxInt64

// maxPooled bounds the buffers that wait in the pool for their next use.
const maxPooled = 64 << 10

var canonizers = sync.Pool{New: func() any { return new(canonizer) }}

func newCanonizer(src []byte) *canonizer {
	c := canonizers.Get().(*canonizer)
	c.src, c.pos, c.from, c.origin = src, 0, 0, 0
	c.dst = c.dst[:0]
	return c
}

func (c *canonizer) release() {
	if cap(c.dst)+cap(c.rewrite)+cap(c.scratch) > maxPooled || cap(c.members) > maxPooled/64 {
		return
	}
	clear(c.members[:cap(c.members)]) // the keys would keep their documents alive
	c.members, c.rewrite, c.scratch = c.members[:0], c.rewrite[:0], c.scratch[:0]
	c.src, c.notes = nil, nil
	canonizers.Put(c)
}

// document reads the one value that src must be. The members of an outermost
// object stay in c.members.
func (c *canonizer) document() error {
	c.space()
	if err := c.value(0); err != nil {
		return err
	}
	c.space()
	if c.pos < len(c.src) {
		return c.fail("has more after its end")
	}
	c.flush()
	return nil
}

func (c *canonizer) fail(problem string) error {
	if c.pos >= len(c.src) {
		return fmt.Errorf("webhook: the JSON ends too early, at byte %d", len(c.src))
	}
	return fmt.Errorf("webhook: the JSON %s, at byte %d", problem, c.pos)
}

// at is the offset in the output that the next byte read will have if it stays.
func (c *canonizer) at() int { return len(c.dst) + c.pos - c.from }

func (c *canonizer) flush() {
	c.dst = append(c.dst, c.src[c.from:c.pos]...)
	c.from = c.pos
}

// drop reads n bytes that do not go to the output.
func (c *canonizer) drop(n int) {
	c.flush()
	c.pos += n
	c.from = c.pos
}

func (c *canonizer) space() {
	n := c.pos
	for n < len(c.src) && (c.src[n] == ' ' || c.src[n] == '\n' || c.src[n] == '\r' || c.src[n] == '\t') {
		n++
	}
	if n > c.pos {
		c.drop(n - c.pos)
	}
}

func (c *canonizer) value(depth int) error {
	if c.pos >= len(c.src) {
		return c.fail("")
	}
	switch b := c.src[c.pos]; b {
	case '"':
		return c.text()
	case '{', '[':
		if depth == MaxDepth {
			return c.fail("nests deeper than " + strconv.Itoa(MaxDepth))
		}
		if b == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	default:
		return c.number()
	}
}

func (c *canonizer) literal(word string) error {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(word)) {
		return c.fail("has an unknown word")
	}
	c.pos += len(word)
	return nil
}

func (c *canonizer) array(depth int) error {
	c.pos++
	c.space()
	if c.next(']') {
		return nil
	}
	for i := 0; ; i++ {
		mark := c.notes.enterIndex(i)
		if err := c.value(depth); err != nil {
			return err
		}
		c.notes.leave(mark)
		c.space()
		if c.next(']') {
			return nil
		}
		if !c.next(',') {
			return c.fail("lacks a comma or ] in an array")
		}
		c.space()
	}
}

// next reads b if it is the next byte.
func (c *canonizer) next(b byte) bool {
	if c.pos < len(c.src) && c.src[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

func (c *canonizer) object(depth int) error {
	o := openObject{base: len(c.members), start: c.at(), last: -1}
	c.pos++
	c.space()
	if c.next('}') {
		return nil
	}
	for {
		if err := c.member(&o, depth); err != nil {
			return err
		}
		c.space()
		if c.next('}') {
			break
		}
		if !c.next(',') {
			return c.fail("lacks a comma or } in an object")
		}
		c.space()
	}
	if o.unordered {
		c.notes.reordered()
	}
	if o.unordered || o.repeated {
		c.rearrange(&o)
	}
	if depth > 1 {
		c.members = c.members[:o.base]
	}
	return nil
}

func (c *canonizer) member(o *openObject, depth int) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	c.space()
	if !c.next(':') {
		return c.fail("lacks a colon after a key")
	}
	c.space()
	m := member{key: key, index: arrayIndex(key), value: c.at()}
	mark := c.notes.enterKey(key)
	if err := c.value(depth); err != nil {
		return err
	}
	m.end = c.at()
	o.add(c, m)
	c.notes.leave(mark)
	return nil
}

// key reads a key and returns its canonical text.
func (c *canonizer) key() ([]byte, error) {
	if c.pos >= len(c.src) || c.src[c.pos] != '"' {
		return nil, c.fail("lacks a key in an object")
	}
	start, out, from := c.pos, c.at(), c.from
	if err := c.text(); err != nil {
		return nil, err
	}
	if c.from == from {
		return c.src[start:c.pos], nil
	}
	c.flush()
	mark := len(c.rewrite)
	c.rewrite = append(c.rewrite, c.dst[out:]...)
	return c.rewrite[mark:len(c.rewrite):len(c.rewrite)], nil
}

// openObject is the state of one object while its members are read.
type openObject struct {
	base      int            // its first member in canonizer.members
	start     int            // where its text starts in the output
	filter    uint64         // a bit for each key seen: a key without its bit is new
	byKey     map[string]int // once there are many members: key to member
	last      int64          // the index of the last member, notIndex for a name
	unordered bool           // an array index came behind a greater one or a name
	repeated  bool           // a key came again
}

// manyMembers is from where on a map finds a key faster than comparing with all.
const manyMembers = 32

// add enters a member that has just been read.
func (o *openObject) add(c *canonizer, m member) {
	if i := o.find(c.members, m.key); i >= 0 {
		old := &c.members[i]
		c.notes.duplicate(c, old)
		old.value, old.end = m.value, m.end
		o.repeated = true
		return
	}
	o.unordered = o.unordered || m.index < o.last
	o.last = m.index
	c.members = append(c.members, m)
	if o.byKey != nil {
		o.byKey[string(m.key)] = len(c.members) - 1
	}
}

// find returns the place in members of this object's member of that key, or -1.
func (o *openObject) find(members []member, key []byte) int {
	bit := uint64(1) << ((uint(len(key)) + 5*uint(key[1]) + 11*uint(key[len(key)/2])) % 64)
	seen := o.filter&bit != 0
	o.filter |= bit
	if o.byKey == nil && len(members)-o.base >= manyMembers {
		o.byKey = make(map[string]int, 2*manyMembers)
		for i := o.base; i < len(members); i++ {
			o.byKey[string(members[i].key)] = i
		}
	}
	if !seen {
		return -1
	}
	if o.byKey != nil {
		if i, ok := o.byKey[string(key)]; ok {
			return i
		}
		return -1
	}
	for i := o.base; i < len(members); i++ {
		if bytes.Equal(members[i].key, key) {
			return i
		}
	}
	return -1
}

// rearrange writes an object anew with its members in canonical order.
func (c *canonizer) rearrange(o *openObject) {
	c.flush()
	c.scratch = append(c.scratch[:0], c.dst[o.start:]...)
	c.dst = c.dst[:o.start]
	members := c.members[o.base:]
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.index, b.index) })
	for i := range members {
		m := &members[i]
		lead := byte(',')
		if i == 0 {
			lead = '{'
		}
		c.dst = append(c.dst, lead)
		c.dst = append(c.dst, m.key...)
		c.dst = append(c.dst, ':')
		value := c.scratch[m.value-o.start : m.end-o.start]
		m.value = len(c.dst)
		c.dst = append(c.dst, value...)
		m.end = len(c.dst)
	}
	c.dst = append(c.dst, '}')
}

// arrayIndex returns the array index that a key (with its quotes) is: a decimal
// without leading zeros from 0 to 2^32-2. Any other key gives notIndex.
func arrayIndex(key []byte) int64 {
	digits := key[1 : len(key)-1]
	if len(digits) == 0 || len(digits) > 10 || digits[0] == '0' && len(digits) > 1 {
		return notIndex
	}
	var n int64
	for _, b := range digits {
		if b < '0' || b > '9' {
			return notIndex
		}
		n = n*10 + int64(b-'0')
	}
	if n > math.MaxUint32-1 {
		return notIndex
	}
	return n
}

// plain tells the bytes that a string holds as they are: ASCII without the
// controls, the quote and the backslash.
var plain = func() (t [256]bool) {
	for b := ' '; b < utf8.RuneSelf; b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

func (c *canonizer) text() error {
	c.pos++
	for {
		src, n := c.src, c.pos
		for n < len(src) && plain[src[n]] {
			n++
		}
		c.pos = n
		if n == len(src) {
			return c.fail("")
		}
		switch b := src[n]; {
		case b == '"':
			c.pos++
			return nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return err
			}
		case b < ' ':
			return c.fail("has a control character that is not escaped")
		default:
			c.multibyte()
		}
	}
}

// multibyte reads one character that is not ASCII.
func (c *canonizer) multibyte() {
	r, n := utf8.DecodeRune(c.src[c.pos:])
	if r != utf8.RuneError || n > 1 {
		c.pos += n
		return
	}
	c.notes.invalidUTF8(c)
	c.drop(invalidLen(c.src[c.pos:]))
	c.dst = append(c.dst, "\uFFFD"...)
}

// invalidLen is the length of the invalid sequence that s starts with, for one
// U+FFFD: the longest start of some valid sequence, else one byte. Decoders of
// JavaScript count so; the length that package utf8 gives is always one.
func invalidLen(s []byte) int {
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch b := s[0]; {
	case b >= 0xC2 && b <= 0xDF:
		need = 1
	case b >= 0xE0 && b <= 0xEF:
		need = 2
	case b >= 0xF0 && b <= 0xF4:
		need = 3
	}
	switch s[0] {
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for n <= need && n < len(s) && s[n] >= low && s[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}

// escape reads one escape sequence, a surrogate pair being one.
func (c *canonizer) escape() error {
	if c.pos+1 >= len(c.src) {
		c.pos = len(c.src)
		return c.fail("")
	}
	switch c.src[c.pos+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		c.pos += 2
		return nil
	case '/':
		c.drop(1)
		c.pos++
		return nil
	case 'u':
		return c.unicodeEscape()
	}
	return c.fail("has an unknown escape sequence")
}

func (c *canonizer) unicodeEscape() error {
	r := hex4(c.src[c.pos:])
	if r < 0 {
		return c.fail(`has a \u without four hexadecimal digits`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		pair := utf8.RuneError
		if low := c.src[c.pos+6:]; len(low) >= 6 && low[0] == '\\' && low[1] == 'u' {
			pair = utf16.DecodeRune(r, hex4(low))
		}
		if pair != utf8.RuneError {
			r, n = pair, 12
		} else {
			c.notes.loneSurrogate(c)
		}
	}
	var buf [6]byte
	text := appendEscaped(buf[:0], r)
	if bytes.Equal(text, c.src[c.pos:c.pos+n]) {
		c.pos += n
		return nil
	}
	c.drop(n)
	c.dst = append(c.dst, text...)
	return nil
}

// hex4 reads the number of the \uXXXX that s starts with, or gives -1.
func hex4(s []byte) rune {
	if len(s) < 6 {
		return -1
	}
	var r rune
	for _, b := range s[2:6] {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b >= 'a' && b <= 'f':
			b -= 'a' - 10
		case b >= 'A' && b <= 'F':
			b -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(b)
	}
	return r
}

// appendEscaped appends one character (or lone surrogate) of a string.
func appendEscaped(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\b':
		return append(dst, `\b`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\f':
		return append(dst, `\f`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r < ' ' || utf16.IsSurrogate(r):
		return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

func (c *canonizer) number() error {
	n, simple := scanNumber(c.src[c.pos:])
	if n == 0 {
		return c.fail("has a value that is none")
	}
	if simple {
		c.pos += n
		return nil
	}
	text := c.src[c.pos : c.pos+n]
	var buf [32]byte
	out := appendNumber(buf[:0], text)
	c.notes.number(text, out)
	if bytes.Equal(out, text) {
		c.pos += n
		return nil
	}
	c.drop(n)
	c.dst = append(c.dst, out...)
	return nil
}

// scanNumber returns the length of the JSON number that s starts with, 0 when
// there is none, and whether it is plain to see that it is canonical: at most 15
// significant digits, all of which a double keeps, and no exponent.
func scanNumber(s []byte) (n int, simple bool) {
	if n < len(s) && s[n] == '-' {
		n++
	}
	whole := digits(s[n:])
	if whole == 0 || whole > 1 && s[n] == '0' {
		return 0, false
	}
	zero := s[n] == '0'
	n += whole
	if n == len(s) || s[n] != '.' && s[n] != 'e' && s[n] != 'E' {
		return n, whole <= 15 && (!zero || s[0] != '-')
	}
	if s[n] == '.' {
		fraction := digits(s[n+1:])
		if fraction == 0 {
			return 0, false
		}
		n += 1 + fraction
		// Below 1e-6 ECMAScript writes an exponent.
		simple = whole+fraction <= 15 && s[n-1] != '0' && (!zero || fraction <= 6)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		exponent := digits(s[n:])
		if exponent == 0 {
			return 0, false
		}
		return n + exponent, false
	}
	return n, simple
}

func digits(s []byte) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// appendNumber appends a JSON number as ECMAScript writes the nearest double.
func appendNumber(dst, text []byte) []byte {
	f, _ := strconv.ParseFloat(string(text), 64) // the only error is the range: ±Inf
	abs := math.Abs(f)
	switch {
	case math.IsInf(f, 0):
		return append(dst, "null"...)
	case f == 0:
		return append(dst, '0')
	case abs >= 1e-6 && abs < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of the exponent, ECMAScript does not.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
