package fields

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// ParseTime reads an ISO 8601 time leniently, as senders of many languages write
// it: the date and the time with or without - and :, joined by T or a blank; the
// time down to the hour or to any fraction of a second; the zone as Z, UTC, GMT,
// +00:00, +0000 or +00, also behind a blank. Without a zone it is UTC, and without
// a time midnight. Years outside 0 to 9999, which could not be written again, are
// refused.
func ParseTime(s string) (time.Time, error) { return ReadTime([]byte(s)) }

// ReadTime is ParseTime of text that is not worth a string of its own.
func ReadTime(s []byte) (time.Time, error) {
	var t time.Time
	ok := t.UnmarshalText(s) == nil && isZone(s) // RFC 3339, as most senders write it
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

// isZone reports whether the zone of a time in RFC 3339 can be: UnmarshalText also takes
// 24 hours, and 60 minutes.
func isZone(s []byte) bool {
	end := len(s) - 1
	return s[end] == 'Z' || string(s[end-4:end-2]) <= "23" && s[end-1] <= '5'
}

// lenientTime has the parts of a time. Whether their separators fit each other, and
// numbers are in their ranges, is yet to be checked.
var lenientTime = regexp.MustCompile(`^(\d{4})(-?)(\d\d)(-?)(\d\d)` + // 1 to 5: the date
	`(?:[Tt ](\d\d)(?:(:?)(\d\d)(?:(:?)(\d\d)(?:[.,](\d+))?)?)?` + // 6 to 11: the time of day
	` ?(?:Z|z|UTC|GMT|([+-])(\d\d)(?::?(\d\d))?)?)?$`) // 12 to 14: the zone

func readLenient(s []byte) (t time.Time, ok bool) {
	m := lenientTime.FindStringSubmatch(string(s))
	if m == nil || m[2] != m[4] || m[10] != "" && m[7] != m[9] {
		return time.Time{}, false
	}
	part := func(i int) int { n, _ := strconv.Atoi(m[i]); return n } // 0 where it is missing
	date := time.Date(part(1), time.Month(part(3)), part(5), 0, 0, 0, 0, time.UTC)
	if int(date.Month()) != part(3) || date.Day() != part(5) {
		return time.Time{}, false // there is no such day
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

// timeLayout is how the collector writes times: UTC, milliseconds, Z.
const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendTimeMember writes a time behind name, which is the start of a member up to the
// quote of its value; it writes nothing for the zero time.
func AppendTimeMember(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(t.UTC().AppendFormat(append(dst, name...), timeLayout), '"')
}
