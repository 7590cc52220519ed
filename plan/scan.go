package plan

import (
	"bytes"
	"encoding/json"
)

// maxCallDepth is how deep a call may be nested.
const maxCallDepth = 1000

// A head is what a call says of itself.
type head struct {
	callType  string
	event     string
	name      string
	messageID string

	properties, traits []byte // JSON, nil where there is none
}

// readHead reads a call, and reports whether it is one JSON object.
func readHead(call []byte) (h head, ok bool) {
	i := skipSpace(call, 0)
	if i >= len(call) || call[i] != '{' {
		return h, false
	}
	end, ok := checkObject(call, i, maxCallDepth, &h)
	return h, ok && skipSpace(call, end) == len(call)
}

// member takes down a member of the call. key is in its quotes.
func (h *head) member(key, value []byte) {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(textOf(key))
	}
	switch string(name) {
	case "type":
		h.callType = textOf(value)
	case "event":
		h.event = textOf(value)
	case "name":
		h.name = textOf(value)
	case "messageId":
		h.messageID = textOf(value)
	case "properties":
		h.properties = objectOrNil(value)
	case "traits":
		h.traits = objectOrNil(value)
	}
}

// objectOrNil returns a value, or nil for null: no properties are none.
func objectOrNil(value []byte) []byte {
	if value[0] == 'n' {
		return nil
	}
	return value
}

// textOf returns the text of a JSON string, or nothing for another value.
func textOf(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	inner := value[1 : len(value)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			var s string
			if json.Unmarshal(value, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(inner)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// checkValue returns the end of the value that begins at i, and whether it is JSON.
func checkValue(b []byte, i, depth int) (int, bool) {
	if i >= len(b) || depth == 0 {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		return checkString(b, i)
	case c == '{':
		return checkObject(b, i, depth, nil)
	case c == '[':
		return checkArray(b, i, depth)
	case c == '-' || c >= '0' && c <= '9':
		return checkNumber(b, i)
	case c == 't':
		return checkWord(b, i, "true")
	case c == 'f':
		return checkWord(b, i, "false")
	case c == 'n':
		return checkWord(b, i, "null")
	}
	return i, false
}

func checkWord(b []byte, i int, word string) (int, bool) {
	end := i + len(word)
	return end, end <= len(b) && string(b[i:end]) == word
}

// checkObject returns the end of an object, and tells its members to h, if there is one.
func checkObject(b []byte, i, depth int, h *head) (int, bool) {
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return i, false
		}
		key := i
		end, ok := checkString(b, i)
		if !ok {
			return end, false
		}
		keyEnd := end
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return i, false
		}
		i = skipSpace(b, i+1)
		if end, ok = checkValue(b, i, depth-1); !ok {
			return end, false
		}
		if h != nil {
			h.member(b[key:keyEnd], b[i:end])
		}
		if i = skipSpace(b, end); i >= len(b) {
			return i, false
		}
		if b[i] == '}' {
			return i + 1, true
		}
		if b[i] != ',' {
			return i, false
		}
		i = skipSpace(b, i+1)
	}
}

func checkArray(b []byte, i, depth int) (int, bool) {
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for {
		end, ok := checkValue(b, i, depth-1)
		if !ok {
			return end, false
		}
		if i = skipSpace(b, end); i >= len(b) {
			return i, false
		}
		if b[i] == ']' {
			return i + 1, true
		}
		if b[i] != ',' {
			return i, false
		}
		i = skipSpace(b, i+1)
	}
}

func checkString(b []byte, i int) (int, bool) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c < 0x20:
			return i, false
		case c == '\\':
			n := checkEscape(b, i+1)
			if n == 0 {
				return i, false
			}
			i += n
		}
	}
	return i, false
}

// checkEscape returns how long the escape after a backslash is, or 0 if there is none.
func checkEscape(b []byte, i int) int {
	if i >= len(b) {
		return 0
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		for j := i + 1; j < i+5; j++ {
			if j >= len(b) || !isHex(b[j]) {
				return 0
			}
		}
		return 5
	}
	return 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func checkNumber(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(b, i); i == start || b[start] == '0' && i > start+1 {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = skipDigits(b, start); i == start {
			return i, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(b, i); i == start {
			return i, false
		}
	}
	return i, true
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}
