package input

import (
	"bytes"
	"time"
)

// QuickFormats contains fast checks for common values. If a quick check accepts a string, the check in
// [Formats] accepts it too. If a quick check rejects a string, the check in Formats decides.
var QuickFormats = map[string]func(text []byte) bool{
	"date": isDate, "date-time": isDateTime, "email": isEmail, "uri": isURI, "uuid": isUUID,
}

// isDateTime accepts times in UTC. Package time also accepts hours with one digit, commas and invalid
// offsets.
func isDateTime(s []byte) bool {
	const afterHour = len("2026-01-31T12")
	var t time.Time
	return len(s) > afterHour && s[afterHour] == ':' && bytes.HasSuffix(s, []byte("Z")) && !bytes.ContainsRune(s, ',') && t.UnmarshalText(s) == nil
}

func isDate(s []byte) bool {
	const midnight = "T00:00:00Z"
	var room [len("2026-01-31") + len(midnight)]byte
	return len(s)+len(midnight) == len(room) && isDateTime(append(append(room[:0], s...), midnight...))
}

// isEmail accepts letters, digits and a few other characters. It rejects consecutive dots.
func isEmail(s []byte) bool {
	at := -1
	for i, c := range s {
		switch {
		case c == '@' && at < 0:
			at = i
		case isAlphanumeric(c):
		case c == '.' || c == '-':
			if i == 0 || i == len(s)-1 || !isAlphanumeric(s[i-1]) || !isAlphanumeric(s[i+1]) {
				return false
			}
		case (c == '+' || c == '_') && at < 0:
		default:
			return false
		}
	}
	return at > 0 && at <= 64 && len(s)-at-1 > 0 && len(s)-at-1 <= 63
}

// isURI accepts HTTP URLs that contain no port and no escapes.
func isURI(s []byte) bool {
	scheme, rest, _ := bytes.Cut(s, []byte("://"))
	if string(scheme) != "https" && string(scheme) != "http" || len(rest) == 0 || !isAlphanumeric(rest[0]) {
		return false
	}
	host := true
	for _, c := range rest {
		host = host && c != '/'
		switch {
		case isAlphanumeric(c) || c == '.' || c == '-' || c == '/':
		case !host && (c == '_' || c == '?' || c == '=' || c == '&'):
		default:
			return false
		}
	}
	return true
}

func isUUID(s []byte) bool {
	const form = "00000000-0000-0000-0000-000000000000"
	if len(s) != len(form) {
		return false
	}
	for i, c := range s {
		isHex := isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
		if form[i] == '-' && c != '-' || form[i] != '-' && !isHex {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
