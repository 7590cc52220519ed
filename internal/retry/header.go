package retry

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderCount is the request header that contains the number of previous attempts to send the same
// batch. The first attempt does not have it.
const HeaderCount = "X-Retry-Count"

const (
	headerRetryAfter = "Retry-After"
	headerReset      = "X-RateLimit-Reset"

	// minRetryAfter limits how often a client retries if the collector requires no pause.
	minRetryAfter = time.Second
)

// RetryAfter returns the pause that a response requires, from a second to five minutes. It
// returns 0 if the response requires no pause. For statuses that are retried, it reads
// Retry-After. For 429 without Retry-After, it reads X-RateLimit-Reset.
func (p *Policy) RetryAfter(status int, header http.Header, now time.Time) time.Duration {
	if p.Classify(status) != Retry {
		return 0
	}
	wait, ok := ParseRetryAfter(header.Get(headerRetryAfter), now)
	if !ok && status == http.StatusTooManyRequests {
		wait, ok = parseReset(header.Get(headerReset), now)
	}
	if !ok {
		return 0
	}
	return min(max(wait, minRetryAfter), cmp.Or(p.maxRetryAfter, defaultMaxRetryAfter))
}

// tooLong is a pause that is longer than any allowed pause.
const tooLong = 1000 * time.Hour

// ParseRetryAfter parses a Retry-After header, which contains seconds or a date. It reports false
// if the value is missing or invalid, or if the date is in the past. A date in the past may be the
// result of a wrong clock.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if isDigits(value) {
		return seconds(value), true
	}
	at, err := http.ParseTime(value)
	return at.Sub(now), err == nil && at.After(now)
}

// A number in X-RateLimit-Reset that is at least firstUnix is a Unix time in seconds. From
// firstUnixMilli, it is a Unix time in milliseconds. A smaller number is a number of seconds
// from now.
const (
	firstUnix      = 500_000_000     // a time in 1985; as seconds from now, it would be 16 years
	firstUnixMilli = 500_000_000_000 // the same time in milliseconds
)

// parseReset parses an X-RateLimit-Reset header. The service's browser libraries read it as seconds
// from now, and the Node library as a time in milliseconds. Others read it as a time in seconds.
// It reports false if the value is missing or invalid, or if the time is in the past.
func parseReset(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if !isDigits(value) {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < firstUnix {
		return seconds(value), true
	}
	at := time.Unix(n, 0)
	if n >= firstUnixMilli {
		at = time.UnixMilli(n)
	}
	return at.Sub(now), at.After(now)
}

// seconds parses a number of seconds. If the number is too large, it returns tooLong.
func seconds(digits string) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil { // the number does not fit into an int32
		return tooLong
	}
	return min(time.Duration(n)*time.Second, tooLong)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
