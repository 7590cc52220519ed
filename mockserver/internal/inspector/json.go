package inspector

import (
	"bytes"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// A jsonLine is one line of a document that is laid out for people. Every number
// and every string stands there as it came.
type jsonLine struct {
	Mark  string // what is to be said of the member that the line belongs to
	Note  string
	Parts []jsonPart
}

// A jsonPart is a piece of a line: white space and punctuation, or a key, a
// string, a number or a word.
type jsonPart struct {
	Kind string // "", key, str, num or word
	Text string
}

// maxIndent is how deep lines are indented; what is nested deeper stays there.
const maxIndent = 24

// layOut lays a document out in lines. mark says what is to be said of each
// member of the document itself; it may be nil. What is not JSON comes back as
// one line.
func layOut(doc []byte, mark func(key string) (mark, note string)) []jsonLine {
	l := layout{mark: mark}
	s := jsonscan.New(doc)
	err := l.value(s, 0)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return []jsonLine{{Parts: []jsonPart{{Text: string(doc)}}}}
	}
	l.breakLine(0)
	return l.lines
}

type layout struct {
	lines []jsonLine
	line  jsonLine
	mark  func(key string) (mark, note string)
}

func (l *layout) add(kind, text string) {
	if n := len(l.line.Parts); n > 0 && kind == "" && l.line.Parts[n-1].Kind == "" {
		l.line.Parts[n-1].Text += text
		return
	}
	l.line.Parts = append(l.line.Parts, jsonPart{kind, text})
}

// breakLine ends a line and indents the next.
func (l *layout) breakLine(depth int) {
	l.lines = append(l.lines, l.line)
	l.line = jsonLine{Mark: l.line.Mark}
	if depth > 0 {
		l.add("", strings.Repeat("  ", min(depth, maxIndent)))
	}
}

func (l *layout) value(s *jsonscan.Scanner, depth int) error {
	switch s.Kind() {
	case '{':
		return l.container(depth, "{", "}", func(next func()) error {
			return s.Object(func(key []byte) error {
				next()
				if depth == 0 && l.mark != nil {
					l.line.Mark, l.line.Note = l.mark(string(jsonscan.Unquote(key)))
				}
				l.add("key", string(key))
				l.add("", ": ")
				return l.value(s, depth+1)
			})
		})
	case '[':
		return l.container(depth, "[", "]", func(next func()) error {
			return s.Array(func() error {
				next()
				return l.value(s, depth+1)
			})
		})
	}
	value, err := s.Value()
	if err == nil {
		l.add(kindOf(value), string(value))
	}
	return err
}

// container lays out what stands between two brackets, each element on a line of
// its own. each calls next before each element.
func (l *layout) container(depth int, open, end string, each func(next func()) error) error {
	l.add("", open)
	empty := true
	err := each(func() {
		if !empty {
			l.add("", ",")
		}
		empty = false
		l.breakLine(depth + 1)
		if depth == 0 {
			l.line.Mark = ""
		}
	})
	if !empty {
		l.breakLine(depth)
		if depth == 0 {
			l.line.Mark = ""
		}
	}
	l.add("", end)
	return err
}

func kindOf(value []byte) string {
	switch c := value[0]; {
	case c == '"':
		return "str"
	case c == '-' || c >= '0' && c <= '9':
		return "num"
	}
	return "word"
}

// addMissing adds a line for a member that an object should have, before its end.
func addMissing(lines []jsonLine, key, note string) []jsonLine {
	missing := jsonLine{Mark: "missing", Note: note, Parts: []jsonPart{{"", "  "}, {"key", `"` + key + `"`}, {"", ": …"}}}
	if len(lines) < 2 {
		return append(lines, missing)
	}
	return append(lines[:len(lines)-1:len(lines)-1], missing, lines[len(lines)-1])
}

// hasMember reports whether an object has a member.
func hasMember(object []byte, name string) (has bool) {
	s := jsonscan.New(object)
	_ = s.Object(func(key []byte) error {
		has = has || string(jsonscan.Unquote(key)) == name
		_, err := s.Value()
		return err
	})
	return has
}

// difference returns the first offset at which two texts differ, -1 if they do not.
func difference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
