package fields

import (
	"fmt"
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
	p := timeParser{rest: s, ok: true}
	t := p.time()
	switch {
	case !p.ok || len(p.rest) > 0:
		return time.Time{}, fmt.Errorf("%.40q is not an ISO 8601 time such as 2026-01-31T12:00:00.000Z", s)
	case t.Year() < 0 || t.Year() > 9999:
		return time.Time{}, fmt.Errorf("the year of %.40q is out of range", s)
	}
	return t, nil
}

// A timeParser reads one time. Once ok is false it stays so.
type timeParser struct {
	rest []byte
	ok   bool
}

func (p *timeParser) time() time.Time {
	year, month, day := p.date()
	var hour, minute, second, nanos, offset int
	if len(p.rest) > 0 {
		if !p.skip("T") && !p.skip("t") && !p.skip(" ") {
			p.ok = false
		}
		hour, minute, second, nanos = p.clock()
		offset = p.zone()
	}
	if !p.ok {
		return time.Time{}
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC).Add(-time.Duration(offset) * time.Second)
}

func (p *timeParser) date() (year, month, day int) {
	year = p.number(4, 0, 9999)
	dashed := p.skip("-")
	month = p.number(2, 1, 12)
	if p.skip("-") != dashed {
		p.ok = false
	}
	day = p.number(2, 1, 31)
	if p.ok && day > daysIn(year, month) {
		p.ok = false
	}
	return year, month, day
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func (p *timeParser) clock() (hour, minute, second, nanos int) {
	hour = p.number(2, 0, 24)
	colons := p.skip(":")
	if colons || p.digit() {
		minute = p.number(2, 0, 59)
		if colons && p.skip(":") || !colons && p.digit() {
			second = p.number(2, 0, 60) // 60 is a leap second
			if p.skip(".") || p.skip(",") {
				nanos = p.fraction()
			}
		}
	}
	if hour == 24 && (minute > 0 || second > 0 || nanos > 0) {
		p.ok = false
	}
	return hour, minute, second, nanos
}

// zone reads how many seconds the time is ahead of UTC.
func (p *timeParser) zone() int {
	p.skip(" ")
	for _, utc := range []string{"Z", "z", "UTC", "GMT"} {
		if p.skip(utc) {
			return 0
		}
	}
	sign := 1
	switch {
	case len(p.rest) == 0:
		return 0
	case p.skip("-"):
		sign = -1
	case !p.skip("+"):
		p.ok = false
	}
	hours, minutes := p.number(2, 0, 23), 0
	if p.skip(":") || len(p.rest) > 0 {
		minutes = p.number(2, 0, 59)
	}
	return sign * (hours*3600 + minutes*60)
}

func (p *timeParser) digit() bool { return len(p.rest) > 0 && p.rest[0] >= '0' && p.rest[0] <= '9' }

func (p *timeParser) skip(prefix string) bool {
	if len(p.rest) < len(prefix) || string(p.rest[:len(prefix)]) != prefix {
		return false
	}
	p.rest = p.rest[len(prefix):]
	return true
}

// number reads exactly so many digits.
func (p *timeParser) number(digits, least, most int) (n int) {
	for range digits {
		if !p.digit() {
			p.ok = false
			return 0
		}
		n = 10*n + int(p.rest[0]-'0')
		p.rest = p.rest[1:]
	}
	p.ok = p.ok && n >= least && n <= most
	return n
}

// fraction reads one digit or more as nanoseconds; those beyond are cut off.
func (p *timeParser) fraction() (nanos int) {
	p.ok = p.ok && p.digit()
	for unit := 100_000_000; p.digit(); unit /= 10 {
		nanos += unit * int(p.rest[0]-'0')
		p.rest = p.rest[1:]
	}
	return nanos
}

// appendTime writes a time as the collector stores it: UTC, milliseconds, Z.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	millis := t.Nanosecond() / int(time.Millisecond)
	dst = append(appendDigits(dst, year/100), '0'+byte(year/10%10), '0'+byte(year%10), '-')
	dst = append(appendDigits(dst, int(month)), '-')
	dst = append(appendDigits(dst, day), 'T')
	dst = append(appendDigits(dst, hour), ':')
	dst = append(appendDigits(dst, minute), ':')
	dst = append(appendDigits(dst, second), '.', '0'+byte(millis/100))
	return append(appendDigits(dst, millis%100), 'Z')
}

// appendDigits writes a number below 100 with two digits.
func appendDigits(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10), '0'+byte(n%10)) }

// AppendTimeMember writes a time behind name, which is the start of a member up to the
// quote of its value; it writes nothing for the zero time.
func AppendTimeMember(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(appendTime(append(dst, name...), t), '"')
}
