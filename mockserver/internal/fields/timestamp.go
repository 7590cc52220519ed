package fields

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// ParseTime parses an ISO 8601 time in the variants that senders use. "-" and ":" may be missing. The
// separator before the time of day is "T" or a blank. Minutes, seconds and fractions of a second are
// optional. The zone is Z, UTC, GMT, +00:00, +0000 or +00, and may follow a blank. The default zone
// is UTC, and the default time is midnight. Years outside 0 to 9999 are invalid, because RFC 3339
// cannot represent them.
func ParseTime(s string) (time.Time, error) { return ReadTime([]byte(s)) }

// ReadTime is like ParseTime, for a byte slice.
func ReadTime(s []byte) (time.Time, error) {
	var t time.Time
	ok := t.UnmarshalText(s) == nil && isZone(s) // tried first, because most times are in RFC 3339
	if !ok {
		if t, ok = readLenient(s); !ok {
			return time.Time{}, fmt.Errorf("%.40q is not an ISO 8601 time such as 2026-01-31T12:00:00.000Z", s)
		}
	}
	t = t.UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("the year of %.40q is out of range", s)
	}
	return t, nil
}

// isZone reports whether the zone of an RFC 3339 time is valid. The check is necessary because
// UnmarshalText also accepts 24 hours and 60 minutes.
func isZone(s []byte) bool {
	end := len(s) - 1
	return s[end] == 'Z' || string(s[end-4:end-2]) <= "23" && s[end-1] <= '5'
}

// lenientTime matches the parts of a time. It does not check separators and ranges.
var lenientTime = regexp.MustCompile(`^(\d{4})(-?)(\d\d)(-?)(\d\d)` + // groups 1 to 5: the date
	`(?:[Tt ](\d\d)(?:(:?)(\d\d)(?:(:?)(\d\d)(?:[.,](\d+))?)?)?` + // groups 6 to 11: the time of day
	` ?(?:Z|z|UTC|GMT|([+-])(\d\d)(?::?(\d\d))?)?)?$`) // groups 12 to 14: the zone

func readLenient(s []byte) (t time.Time, ok bool) {
	m := lenientTime.FindStringSubmatch(string(s))
	if m == nil || m[2] != m[4] || m[10] != "" && m[7] != m[9] {
		return time.Time{}, false
	}
	part := func(i int) int { n, _ := strconv.Atoi(m[i]); return n } // returns 0 for a missing part
	date := time.Date(part(1), time.Month(part(3)), part(5), 0, 0, 0, 0, time.UTC)
	if int(date.Month()) != part(3) || date.Day() != part(5) {
		return time.Time{}, false // the month does not have this day
	}
	hour, minute, second := part(6), part(8), part(10)
	nanos, _ := strconv.Atoi((m[11] + "000000000")[:9])
	switch {
	case hour > 24, minute > 59, second > 60, part(13) > 23, part(14) > 59: // second 60 is a leap second
		return time.Time{}, false
	case hour == 24 && minute+second+nanos > 0:
		return time.Time{}, false
	}
	offset := time.Duration(part(13))*time.Hour + time.Duration(part(14))*time.Minute
	if m[12] == "-" {
		offset = -offset
	}
	t = time.Date(date.Year(), date.Month(), date.Day(), hour, minute, second, nanos, time.UTC)
	return t.Add(-offset), true
}

// TimeLayout is the format of stored times, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// AppendTimeMember appends a field with a time. name is the beginning of the field, up to and
// including the opening quote of its value. For the zero time, it appends nothing.
func AppendTimeMember(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(t.UTC().AppendFormat(append(dst, name...), TimeLayout), '"')
}
