package wire

import (
	"fmt"
	"strings"
	"time"
)

// TimeLen is the length of a time in the format of AppendTime, for the years 0 to 9999.
const TimeLen = len("2006-01-02T15:04:05.000Z")

// AppendISO8601 parses s as ISO 8601 and appends it in the format of AppendTime.
func AppendISO8601(dst []byte, s string) ([]byte, error) {
	t, ok := ParseTime(s)
	if !ok {
		// Without a copy, the error would make the caller's memory escape to the heap.
		return dst, fmt.Errorf("%.64q is not an ISO 8601 time such as 2006-01-02T15:04:05.000Z", strings.Clone(s))
	}
	return AppendTime(dst, t), nil
}

// ParseTime parses an ISO 8601 time in the variants that senders use. It reports false if the time is invalid,
// or outside the years 0 to 9999 in UTC. The date is 2006-01-02 or 20060102. An optional time of day follows
// T or a space. It ends with the hour, minute, second or a fraction of a second. An optional zone follows,
// with or without a space before it: Z, UTC, GMT, or an offset such as +02:00, +0200 or +02. The defaults are
// midnight and UTC. Week dates and ordinal dates are not supported.
func ParseTime(s string) (t time.Time, ok bool) {
	c := cursor{s: s}
	year := c.digits(4)
	extended := c.skip('-')
	month := c.digits(2)
	if extended != c.skip('-') {
		return t, false
	}
	day := c.digits(2)
	if month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(year, month) {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if !c.bad && c.s != "" {
		if !c.skip('T') && !c.skip('t') && !c.skip(' ') {
			return t, false
		}
		t = t.Add(c.timeOfDay() - c.offset())
	}
	return t, !c.bad && c.s == "" && t.Unix() >= firstSecond && t.Unix() <= lastSecond
}

// The first second of the year 0 and the last one of the year 9999, in Unix time. Time.Year is slower.
const firstSecond, lastSecond = -62167219200, 253402300799

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// cursor reads a time from left to right. bad is set if the input is invalid.
type cursor struct {
	s   string
	bad bool
}

// digits parses a number that has exactly n digits.
func (c *cursor) digits(n int) (v int) {
	if len(c.s) < n {
		c.bad = true
		return 0
	}
	for i := range n {
		d := c.s[i] - '0'
		if d > 9 {
			c.bad = true
			return 0
		}
		v = v*10 + int(d)
	}
	c.s = c.s[n:]
	return v
}

// skip skips the next byte if it is b, and reports whether it did.
func (c *cursor) skip(b byte) bool {
	if c.s == "" || c.s[0] != b {
		return false
	}
	c.s = c.s[1:]
	return true
}

func (c *cursor) digitNext() bool { return c.s != "" && c.s[0]-'0' <= 9 }

// timeOfDay parses hh, hh:mm, hh:mm:ss or hh:mm:ss.fraction, or the same without colons. Before a colon, the
// hour may have one digit. 24:00 is the end of the day, and second 60 is a leap second.
func (c *cursor) timeOfDay() time.Duration {
	n := 2
	if len(c.s) > 1 && c.s[1] == ':' {
		n = 1
	}
	hour, minute, second := c.digits(n), 0, 0
	var fraction time.Duration
	colons := c.skip(':')
	if colons || c.digitNext() {
		minute = c.digits(2)
		if colons && c.skip(':') || !colons && c.digitNext() {
			second = c.digits(2)
			fraction = c.fraction()
		}
	}
	c.bad = c.bad || hour > 24 || minute > 59 || second > 60 ||
		hour == 24 && (minute > 0 || second > 0 || fraction > 0)
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute +
		time.Duration(second)*time.Second + fraction
}

// fraction parses an optional fraction of a second.
func (c *cursor) fraction() (d time.Duration) {
	if !c.skip('.') && !c.skip(',') {
		return 0
	}
	c.bad = c.bad || !c.digitNext()
	for unit := time.Second / 10; c.digitNext(); unit /= 10 {
		d += time.Duration(c.s[0]-'0') * unit
		c.s = c.s[1:]
	}
	return d
}

// offset parses an optional zone.
func (c *cursor) offset() time.Duration {
	c.bad = c.bad || c.skip(' ') && c.s == ""
	switch c.s {
	case "", "Z", "z", "UTC", "GMT":
		c.s = ""
		return 0
	}
	sign := time.Duration(1)
	if c.skip('-') {
		sign = -1
	} else {
		c.bad = c.bad || !c.skip('+')
	}
	hour, minute := c.digits(2), 0
	if c.skip(':') || c.s != "" {
		minute = c.digits(2)
	}
	c.bad = c.bad || hour > 23 || minute > 59
	return sign * (time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// AppendTime appends t in ISO 8601, in UTC and with milliseconds, such as
// 2006-01-02T15:04:05.000Z. It does not append quotes.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	hour, minute, second := t.Clock()
	dst = append(dst, "0000-00-00T00:00:00.000Z"...)
	text := dst[len(dst)-TimeLen:]
	putDecimal(text[0:4], year)
	putDecimal(text[5:7], int(month))
	putDecimal(text[8:10], day)
	putDecimal(text[11:13], hour)
	putDecimal(text[14:16], minute)
	putDecimal(text[17:19], second)
	putDecimal(text[20:23], t.Nanosecond()/1e6)
	return dst
}

// putDecimal writes the last len(dst) digits of n to dst.
func putDecimal(dst []byte, n int) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// appendJSONTime appends t like its MarshalJSON method, in RFC 3339 with up to nine decimals and in
// its own time zone.
func appendJSONTime(dst []byte, t time.Time) ([]byte, error) {
	out, err := t.AppendText(append(dst, '"'))
	if err != nil {
		return dst, err
	}
	return append(out, '"'), nil
}
