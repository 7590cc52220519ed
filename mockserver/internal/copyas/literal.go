package copyas

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// plainWord matches words that need no quotes in a shell.
var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// Shell quotes a string as one word of a shell command.
func Shell(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Quoted returns a string literal that is valid in Go, JavaScript and Python.
func Quoted(s string) string {
	return string(text.JSON(s, ""))
}

// goValue writes a JSON value as a Go expression, which gofmt must format. The digits of numbers do not
// change.
func goValue(out *bytes.Buffer, value []byte) {
	switch jsonscan.New(value).Kind() {
	case '{':
		last := map[string]int{} // if a key occurs twice, the last value applies
		members := slices.Collect(jsonscan.Members(value))
		for i, m := range members {
			last[string(jsonscan.Unquote(m.Key))] = i
		}
		out.WriteString("map[string]any{\n")
		for i, m := range members {
			if key := string(jsonscan.Unquote(m.Key)); last[key] == i {
				out.WriteString(strconv.Quote(key) + ": ")
				goValue(out, m.Value)
				out.WriteString(",\n")
			}
		}
		out.WriteByte('}')
	case '[':
		out.WriteString("[]any{\n")
		for element := range jsonscan.Elements(value) {
			goValue(out, element)
			out.WriteString(",\n")
		}
		out.WriteByte('}')
	case '"':
		out.WriteString(strconv.Quote(string(jsonscan.Unquote(value))))
	case 'n':
		out.WriteString("nil")
	case '0':
		out.WriteString(goNumber(string(value)))
	default:
		out.Write(value)
	}
}

// wholeNumber matches numbers that fit into an int.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)

// goNumber returns a Go expression that the client encodes with these digits.
func goNumber(digits string) string {
	if wholeNumber.MatchString(digits) {
		return digits
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err == nil && strconv.FormatFloat(n, 'f', -1, 64) == digits && strings.Contains(digits, ".") {
		return digits
	}
	return "json.Number(" + strconv.Quote(digits) + ")"
}

// jsValue returns a JSON value as an indented JavaScript expression.
func jsValue(value []byte, indent string) string {
	var out bytes.Buffer
	_ = json.Indent(&out, value, indent, "  ") // cannot fail, because CanSend has checked the call
	// In JavaScript the key __proto__ sets the prototype, unless it is a computed key.
	return protoKey.ReplaceAllString(out.String(), `$1["__proto__"]:`)
}

// protoKey matches the key __proto__, possibly escaped, at the beginning of a line.
var protoKey = regexp.MustCompile(`(?m)^(\s*)"` + escapable("__proto__") + `":`)

// escapable returns a pattern that matches a name even if letters are escaped as \uXXXX.
func escapable(name string) string {
	var out strings.Builder
	for _, r := range name {
		out.WriteString(`(?:` + string(r) + `|\\u00(?i:` + strconv.FormatInt(int64(r), 16) + `))`)
	}
	return out.String()
}

// losesDigits reports whether a document contains a number that loses digits in JavaScript.
func losesDigits(doc []byte) bool {
	return slices.ContainsFunc(canonical.Changes(doc), func(c canonical.Change) bool {
		return c.Kind == canonical.ChangePrecision || c.Kind == canonical.ChangeOverflow
	})
}
