package input

// QuickFormats contains fast checks for common values. If a quick check accepts a string, the check in
// [Formats] accepts it too. If a quick check rejects a string, the check in Formats decides.
var QuickFormats = map[string]func(text []byte) bool{
	"date": isDate, "date-time": isDateTime, "email": isEmail, "uri": isURI, "uuid": isUUID,
}

// everyMonth is the number of days that all months have.
const everyMonth = 28

// isDate accepts dates up to day 28 of a month.
func isDate(s []byte) bool {
	if len(s) != len("2026-01-31") || s[4] != '-' || s[7] != '-' {
		return false
	}
	_, ok := twoDigits(s[0:2], 99)
	_, also := twoDigits(s[2:4], 99)
	month, isMonth := twoDigits(s[5:7], 12)
	day, isDay := twoDigits(s[8:10], everyMonth)
	return ok && also && isMonth && isDay && month > 0 && day > 0
}

// isDateTime accepts times in UTC, with or without a fraction.
func isDateTime(s []byte) bool {
	if len(s) < len("2026-01-31T12:00:00Z") || !isDate(s[:10]) || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[len(s)-1] != 'Z' {
		return false
	}
	_, isHour := twoDigits(s[11:13], 23)
	_, isMinute := twoDigits(s[14:16], 59)
	_, isSecond := twoDigits(s[17:19], 59)
	if !isHour || !isMinute || !isSecond {
		return false
	}
	fraction := s[19 : len(s)-1]
	for i, c := range fraction {
		if i == 0 && c != '.' || i > 0 && !isDigit(c) {
			return false
		}
	}
	return len(fraction) != 1
}

// twoDigits parses a number of two digits. The number must not exceed most.
func twoDigits(s []byte, most int) (n int, ok bool) {
	if !isDigit(s[0]) || !isDigit(s[1]) {
		return 0, false
	}
	n = int(s[0]-'0')*10 + int(s[1]-'0')
	return n, n <= most
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
