package page

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// A Line is one line of a document that is laid out for people. Every number
// and every string stands there as it came.
type Line struct {
	Mark  string // what is to be said of the member that the line belongs to
	Note  string
	Parts []LinePart
}

// A LinePart is a piece of a line: white space and punctuation, or a key, a
// string, a number or a word.
type LinePart struct {
	Kind string // "", key, str, num or word
	Text string
}

// maxIndent is how deep lines are indented; what is nested deeper stays there.
const maxIndent = 24

// LayOut lays a document out in lines. mark says what is to be said of each
// member of the document itself; it may be nil. What is not JSON comes back as
// one line.
func LayOut(doc []byte, mark func(key string) (mark, note string)) []Line {
	var broken bytes.Buffer
	// It is indented below: what is nested deep would be indentation for the most part.
	if json.Indent(&broken, bytes.TrimSpace(doc), "", "") != nil {
		return []Line{{Parts: []LinePart{{Text: string(doc)}}}}
	}
	var lines []Line
	depth, marked := 0, ""
	for text := range strings.SplitSeq(broken.String(), "\n") {
		if strings.ContainsAny(text[:1], "}]") {
			depth--
		}
		line := Line{Parts: []LinePart{{Text: strings.Repeat("  ", min(depth, maxIndent))}}}
		key, value := "", text
		if found := memberPattern.FindStringSubmatch(text); found != nil {
			key, value = found[1], found[2]
			line.Parts = append(line.Parts, LinePart{"key", key}, LinePart{Text: ": "})
		}
		switch {
		case depth == 0:
			marked = ""
		case depth == 1 && key != "" && mark != nil:
			marked, line.Note = mark(string(jsonscan.Unquote([]byte(key))))
		}
		line.Mark = marked
		scalar, comma := strings.CutSuffix(value, ",")
		line.Parts = append(line.Parts, LinePart{KindOf([]byte(scalar)), scalar})
		if comma {
			line.Parts = append(line.Parts, LinePart{Text: ","})
		}
		lines = append(lines, line)
		if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") {
			depth++
		}
	}
	return lines
}

// Indented lays a document out as LayOut does, as one text.
func Indented(doc []byte) string {
	var out strings.Builder
	for _, line := range LayOut(doc, nil) {
		for _, part := range line.Parts {
			out.WriteString(part.Text)
		}
		out.WriteByte('\n')
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// memberPattern matches a line of an object: the key, and what follows the colon.
var memberPattern = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"): (.*)$`)

// KindOf returns the kind of a value, as a LinePart has it.
func KindOf(value []byte) string {
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
