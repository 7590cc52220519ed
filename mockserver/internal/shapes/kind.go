package shapes

import (
	"bytes"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// A kind is the type of a value, and the format if the value is a string.
type kind uint8

const (
	nullKind kind = iota
	booleanKind
	integerKind
	numberKind
	textKind
	dateTimeKind
	dateKind
	uuidKind
	emailKind
	uriKind
	digitsKind // a string that contains a number
	objectKind
	arrayKind
	kinds
)

// kindNames contains the type and format of each kind. All names except the format "number" are
// defined by JSON Schema.
var kindNames = [kinds]struct{ typ, format string }{
	nullKind: {"null", ""}, booleanKind: {"boolean", ""}, integerKind: {"integer", ""}, numberKind: {"number", ""},
	textKind: {"string", ""}, dateTimeKind: {"string", "date-time"}, dateKind: {"string", "date"}, uuidKind: {"string", "uuid"},
	emailKind: {"string", "email"}, uriKind: {"string", "uri"}, digitsKind: {"string", "number"},
	objectKind: {"object", ""}, arrayKind: {"array", ""},
}

// kindOf returns the kind of a value. raw must be valid JSON.
func kindOf(raw []byte) kind {
	switch raw[0] {
	case 'n':
		return nullKind
	case 't', 'f':
		return booleanKind
	case '"':
		return formatOf(raw[1 : len(raw)-1])
	case '{':
		return objectKind
	case '[':
		return arrayKind
	}
	if bytes.ContainsAny(raw, ".eE") {
		return numberKind
	}
	return integerKind
}

const maxFormatted = 300 // maximum length in bytes; formats of longer strings are not detected

// formatOf returns the kind of a string. s excludes the quotes.
func formatOf(s []byte) kind {
	if len(s) == 0 || len(s) > maxFormatted {
		return textKind
	}
	switch c := s[0]; {
	case len(s) == 36 && isUUID(s):
		return uuidKind
	case c >= '0' && c <= '9' || c == '-':
		if n, _ := jsonscan.Number(s); n == len(s) {
			return digitsKind
		}
		if len(s) >= len(time.DateOnly) && s[4] == '-' {
			return timeFormat(s)
		}
	case bytes.HasPrefix(s, []byte("https://")) || bytes.HasPrefix(s, []byte("http://")):
		if bytes.IndexByte(s, ' ') < 0 {
			return uriKind
		}
	}
	if isEmail(s) {
		return emailKind
	}
	return textKind
}

func isUUID(s []byte) bool {
	for i, c := range s {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c|0x20 >= 'a' && c|0x20 <= 'f':
		default:
			return false
		}
	}
	return true
}

func timeFormat(s []byte) kind {
	if len(s) == len(time.DateOnly) {
		if _, err := time.Parse(time.DateOnly, string(s)); err == nil {
			return dateKind
		}
		return textKind
	}
	if t := new(time.Time); t.UnmarshalText(s) == nil {
		return dateTimeKind
	}
	return textKind
}

// isEmail reports whether s looks like an email address: a name, one @, and a host with a dot.
func isEmail(s []byte) bool {
	name, host, found := bytes.Cut(s, []byte("@"))
	dot := bytes.LastIndexByte(host, '.')
	return found && len(name) > 0 && dot > 0 && dot < len(host)-1 && bytes.IndexByte(host, '@') < 0 && !bytes.ContainsAny(s, " \t\\<>")
}
