package copyas

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// plainWord matches what a shell leaves alone.
var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// Shell writes a text as one word of a shell's command line.
func Shell(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Quoted writes a text as a literal of Go, JavaScript and Python alike.
func Quoted(s string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // strings always encode
	return strings.TrimSpace(out.String())
}

// goValue writes a JSON value as an expression of Go. Numbers keep their digits.
func goValue(out *bytes.Buffer, value []byte) {
	s := jsonscan.New(value)
	first := true
	open := func(brackets string) {
		if first {
			out.WriteString(brackets + "{\n")
		}
		first = false
	}
	switch s.Kind() {
	case '{':
		last := map[string]int{} // where a key comes more than once, the last one counts
		members := slices.Collect(jsonscan.Members(value))
		for i, m := range members {
			last[string(jsonscan.Unquote(m.Key))] = i
		}
		for i, m := range members {
			key := string(jsonscan.Unquote(m.Key))
			if last[key] != i {
				continue
			}
			open("map[string]any")
			out.WriteString(strconv.Quote(key) + ": ")
			goValue(out, m.Value)
			out.WriteString(",\n")
		}
		if first {
			out.WriteString("map[string]any{")
		}
		out.WriteByte('}')
	case '[':
		_ = s.Array(func() error {
			open("[]any")
			value, err := s.Value()
			goValue(out, value)
			out.WriteString(",\n")
			return err
		})
		if first {
			out.WriteString("[]any{")
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

// wholeNumber matches numbers that an int of Go holds as they are.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)

// goNumber writes a number as Go writes it, where the client then sends the same digits.
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

// jsValue writes a JSON value as an expression of JavaScript, whose lines are indented.
func jsValue(value []byte, indent string) string {
	var out bytes.Buffer
	_ = json.Indent(&out, value, indent, "  ") // it is valid, see CanSend
	// In JavaScript this key is the prototype, unless it is computed.
	return protoKey.ReplaceAllString(out.String(), `$1["__proto__"]:`)
}

// protoKey matches the key at the beginning of a line of an object: no text has a line of
// its own. Its letters may be escaped.
var protoKey = regexp.MustCompile(`(?m)^(\s*)"` + escapable("__proto__") + `":`)

// escapable matches a name whose letters may be written as \uXXXX.
func escapable(name string) string {
	var out strings.Builder
	for _, r := range name {
		out.WriteString(`(?:` + string(r) + `|\\u00(?i:` + strconv.FormatInt(int64(r), 16) + `))`)
	}
	return out.String()
}

// losesDigits reports whether JSON has a number that JavaScript does not hold as it is.
func losesDigits(doc []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if digits, ok := token.(json.Number); ok {
			n, err := digits.Float64()
			if whole, isWhole := strings.CutPrefix(digits.String(), "-"); err != nil || !isWhole && len(whole) > 15 && strconv.FormatFloat(n, 'f', -1, 64) != digits.String() {
				return true
			}
		}
	}
}
