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
	for _, scheme := range []string{"https://", "http://"} {
		if len(s) > len(scheme) && string(s[:len(scheme)]) == scheme && isAlphanumeric(s[len(scheme)]) {
			s = s[len(scheme):]
			host := true
			for _, c := range s {
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
	}
	return false
}

func isUUID(s []byte) bool {
	if len(s) != len("0190b6c3-6c6e-7d2a-8a5b-0123456789ab") {
		return false
	}
	for i, c := range s {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isDigit(c) && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
