package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// MaxBytes is the maximum length of a query in bytes.
	MaxBytes = 2000
	// MaxTerms is the maximum number of terms in a query.
	MaxTerms = 32
)

// An Error is a syntax error with a hint.
type Error struct {
	At      int // position of the error in characters, counted from 1
	Problem string
	Hint    string
}

func (e *Error) Error() string { return fmt.Sprintf("character %d: %s: %s", e.At, e.Problem, e.Hint) }

// Parse parses a query. Errors are of type [*Error].
func Parse(s string) (Query, error) {
	p := parser{text: s}
	switch {
	case len(s) > MaxBytes:
		return nil, p.fail(MaxBytes, fmt.Sprintf("the search has more than %s bytes", text.GroupDigits(MaxBytes)), "write a shorter one")
	case !utf8.ValidString(s):
		return nil, p.fail(0, "the search is not valid UTF-8", "write it again")
	}
	var q Query
	for p.space(); p.pos < len(s); p.space() {
		if len(q) == MaxTerms {
			return nil, p.fail(p.pos, fmt.Sprintf("the search has more than %d conditions", MaxTerms), "remove some")
		}
		term, err := p.term()
		if err != nil {
			return nil, err
		}
		q = append(q, term)
	}
	return q, nil
}

// A parser parses a query. Its methods advance pos.
type parser struct {
	text string
	pos  int
}

func (p *parser) fail(at int, problem, hint string) error {
	return &Error{At: utf8.RuneCountInString(p.text[:at]) + 1, Problem: problem, Hint: hint}
}

func (p *parser) rest() string { return p.text[p.pos:] }

func (p *parser) space() {
	p.pos = len(p.text) - len(strings.TrimLeftFunc(p.rest(), endsWord))
}

// word parses the text before the next space.
func (p *parser) word() string {
	rest := p.rest()
	if end := strings.IndexFunc(rest, endsWord); end >= 0 {
		rest = rest[:end]
	}
	p.pos += len(rest)
	return rest
}

// quoted parses a quoted string.
func (p *parser) quoted() (string, error) {
	start := p.pos
	var out strings.Builder
	for p.pos++; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '"':
			p.pos++
			return out.String(), nil
		case c == '\\' && p.pos+1 < len(p.text) && strings.IndexByte(`"\`, p.text[p.pos+1]) >= 0:
			p.pos++
			out.WriteByte(p.text[p.pos])
		default:
			out.WriteByte(c)
		}
	}
	return "", p.fail(start, "unclosed quote", `close it with "; write a quote inside it as \"`)
}

// end returns an error if a term does not end after a quoted string.
func (p *parser) end() error {
	if next, _ := utf8.DecodeRuneInString(p.rest()); p.rest() != "" && !endsWord(next) {
		return p.fail(p.pos, "missing space after the quote", "add a space, or quote the whole value")
	}
	return nil
}

// term parses one term.
func (p *parser) term() (Term, error) {
	start := p.pos
	var t Term
	if rest := p.rest(); rest[0] == '-' && len(rest) > 1 && !endsWord(firstRune(rest[1:])) {
		t.Not = true
		p.pos++
	}
	if p.rest()[0] == '"' {
		var err error
		if t.Value, err = p.quoted(); err == nil {
			err = p.end()
		}
		if err == nil && t.Value == "" {
			err = p.fail(start, "empty quotes", "add text between them or remove them")
		}
		return t, err
	}
	named, err := p.name(&t)
	if err != nil {
		return t, err
	}
	if !named {
		t.Value = p.word()
		return t, nil
	}
	return t, p.value(&t, start)
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// name parses a field name, a path and a colon. If the term is text, name returns false and does not
// advance.
func (p *parser) name(t *Term) (bool, error) {
	rest := p.rest()
	n := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
	if n <= 0 || rest[n] != ':' && rest[n] != '.' || strings.HasPrefix(rest[n:], "://") {
		return false, nil
	}
	f := fieldNamed(rest[:n])
	switch {
	case f.Name == "" && (rest[n] == '.' || unicode.IsDigit(firstRune(rest))):
		return false, nil // the text is a host, a number or a time
	case f.Name == "":
		return false, p.fail(p.pos, fmt.Sprintf("unknown field %q", text.Cut(40, rest[:n])), hintForField(rest[:n]))
	}
	start := p.pos
	p.pos += n
	if err := p.path(&t.Path); err != nil {
		return false, err
	}
	switch {
	case f.kind == memberField && len(t.Path) == 0:
		return false, p.fail(start, f.Name+" needs a field name", "add it after a dot, as in "+f.Example)
	case f.kind != memberField && len(t.Path) > 0:
		p.pos = start
		t.Path = nil
		return false, nil // text such as id.json
	case !strings.HasPrefix(p.rest(), ":"):
		return false, p.fail(start, f.Name+" needs a value", "add a colon and a value, as in "+f.Example+`; to search for the text, quote it`)
	}
	p.pos++
	t.Field = f.Name
	return true, nil
}

func hintForField(name string) string {
	names := make([]string, len(Fields))
	for i, f := range Fields {
		names[i] = f.Name
	}
	if best := spell.Closest(name, names); best != "" {
		return fmt.Sprintf("did you mean %s:? To search for the text, quote it", best)
	}
	return "use one of " + strings.Join(names, ", ") + "; to search for the text, quote it"
}

// path parses the names after a field. A dot precedes each name.
func (p *parser) path(path *[]string) error {
	for strings.HasPrefix(p.rest(), ".") {
		p.pos++
		if strings.HasPrefix(p.rest(), `"`) {
			name, err := p.quoted()
			if err != nil {
				return err
			}
			*path = append(*path, name)
			continue
		}
		rest := p.rest()
		n := strings.IndexFunc(rest, func(r rune) bool { return endsWord(r) || r == '.' || r == ':' || r == '"' })
		if n < 0 {
			n = len(rest)
		}
		if n == 0 {
			return p.fail(p.pos, "missing name after the dot", `add a name; quote it if it has spaces or dots, as in prop."unit price":9.5`)
		}
		*path = append(*path, rest[:n])
		p.pos += n
	}
	return nil
}

// value parses the operator and the value of a term, and checks them.
func (p *parser) value(t *Term, start int) error {
	f := fieldNamed(t.Field)
	for _, op := range []Op{OpAtLeast, OpAtMost, OpMore, OpLess, OpEqual} {
		if strings.HasPrefix(p.rest(), string(op)) {
			t.Op = op
			p.pos += len(op)
			break
		}
	}
	at := p.pos
	if strings.HasPrefix(p.rest(), `"`) {
		var err error
		if t.Value, err = p.quoted(); err != nil {
			return err
		}
		if err := p.end(); err != nil {
			return err
		}
	} else {
		t.Value = p.word()
		switch {
		case t.Value == "":
			return p.fail(start, p.text[start:at]+" has no value", "add one, as in "+f.Example)
		case t.Value == "*" && t.Op == OpLike:
			t.Op, t.Value = OpExists, ""
		}
	}
	if problem, hint := f.check(t); problem != "" {
		return p.fail(at, problem, hint)
	}
	return nil
}

// check returns a problem if the field does not support the term.
func (f *Field) check(t *Term) (problem, hint string) {
	switch t.Op {
	case OpExists:
		if f.kind == statusField || f.kind == timeField {
			return f.Name + " cannot be *", "use a value, as in " + f.Example
		}
		return "", ""
	case OpMore, OpAtLeast, OpLess, OpAtMost:
		if f.kind != memberField {
			return fmt.Sprintf("%s does not support %s", f.Name, t.Op), "remove it or quote the value: " + f.Example
		}
		if _, err := strconv.ParseFloat(t.Value, 64); err != nil {
			return fmt.Sprintf("%q is not a number", text.Cut(40, t.Value)), "use a number, as in prop.total:>100"
		}
	case OpEqual:
		if f.kind == statusField || f.kind == timeField {
			return f.Name + " does not support =", "remove it, as in " + f.Example
		}
	case OpLike:
	}
	switch f.kind {
	case statusField:
		if _, isCode := StatusRange(t.Value); !isCode && !slices.Contains(f.Values, t.Value) {
			return fmt.Sprintf("unknown status %q", text.Cut(40, t.Value)), "use " + strings.Join(f.Values, ", ") + ", a response status such as 404, or 4xx"
		}
	case timeField:
		if _, err := ReadTime(t.Value, time.Time{}); err != nil {
			return fmt.Sprintf("%q is not a time", text.Cut(40, t.Value)), "use an age such as 5m, 1h or 7d, or a time such as 2026-01-31T12:00:00Z; UTC is the default"
		}
	default:
		if len(f.Values) > 0 && !slices.Contains(f.Values, t.Value) && f.Name != "type" {
			return fmt.Sprintf("%s has no value %q", f.Name, text.Cut(40, t.Value)), "use " + strings.Join(f.Values, " or ")
		}
	}
	return "", ""
}
