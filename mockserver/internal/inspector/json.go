package inspector

import (
	"bytes"
	"encoding/json"
	"regexp"
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
	var broken bytes.Buffer
	// It is indented below: what is nested deep would be indentation for the most part.
	if json.Indent(&broken, bytes.TrimSpace(doc), "", "") != nil {
		return []jsonLine{{Parts: []jsonPart{{Text: string(doc)}}}}
	}
	var lines []jsonLine
	depth, marked := 0, ""
	for text := range strings.SplitSeq(broken.String(), "\n") {
		if strings.ContainsAny(text[:1], "}]") {
			depth--
		}
		line := jsonLine{Parts: []jsonPart{{Text: strings.Repeat("  ", min(depth, maxIndent))}}}
		key, value := "", text
		if found := memberPattern.FindStringSubmatch(text); found != nil {
			key, value = found[1], found[2]
			line.Parts = append(line.Parts, jsonPart{"key", key}, jsonPart{Text: ": "})
		}
		switch {
		case depth == 0:
			marked = ""
		case depth == 1 && key != "" && mark != nil:
			marked, line.Note = mark(string(jsonscan.Unquote([]byte(key))))
		}
		line.Mark = marked
		scalar, comma := strings.CutSuffix(value, ",")
		line.Parts = append(line.Parts, jsonPart{kindOf([]byte(scalar)), scalar})
		if comma {
			line.Parts = append(line.Parts, jsonPart{Text: ","})
		}
		lines = append(lines, line)
		if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") {
			depth++
		}
	}
	return lines
}

// memberPattern matches a line of an object: the key, and what follows the colon.
var memberPattern = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"): (.*)$`)

func kindOf(value []byte) string {
	switch c := value[0]; {
	case strings.ContainsRune("{}[]", rune(c)):
		return ""
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
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}
