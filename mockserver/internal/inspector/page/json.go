package page

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// A Line is a line of formatted JSON. Numbers and strings keep their original spelling.
type Line struct {
	Mark  string // mark of the field that contains the line
	Note  string
	Parts []LinePart
}

// A LinePart is white space, punctuation, a key or a value.
type LinePart struct {
	Kind string // "", key, str, num or word
	Text string
}

// maxIndent limits the indentation, in levels.
const maxIndent = 24

// LayOut formats a JSON document. mark returns the mark and note of each top-level field; it
// may be nil. Invalid JSON is returned as one line.
func LayOut(doc []byte, mark func(key string) (mark, note string)) []Line {
	var broken bytes.Buffer
	// The loop below adds a limited indentation. Otherwise, the output for a deeply nested
	// document would be mostly white space.
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

// Indented formats a JSON document as one string.
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

// memberPattern matches a field: its key and the text after the colon.
var memberPattern = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"): (.*)$`)

// KindOf returns the LinePart kind of a JSON value.
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
