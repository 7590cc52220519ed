package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderCount is the request header with the number of previous attempts with the same batch.
// The first attempt does not have it.
const HeaderCount = "X-Retry-Count"

const (
	headerRetryAfter = "Retry-After"
	headerReset      = "X-RateLimit-Reset"

	// minRetryAfter prevents clients from retrying in a busy loop.
	minRetryAfter = time.Second
)

// RetryAfter returns the pause that a response requires, from a second to five minutes, or 0.
// It reads Retry-After for each status that is retried, and otherwise X-RateLimit-Reset for
// 429.
func (p *Policy) RetryAfter(status int, header http.Header, now time.Time) time.Duration {
	if p.Classify(status) != Again {
		return 0
	}
	most := p.maxRetryAfter
	if most == 0 {
		most = defaultMaxRetryAfter
	}
	if wait, ok := parseRetryAfter(header.Get(headerRetryAfter), now); ok {
		return min(max(wait, minRetryAfter), most)
	}
	if status != http.StatusTooManyRequests {
		return 0
	}
	if wait, ok := parseReset(header.Get(headerReset), now); ok {
		return min(max(wait, minRetryAfter), most)
	}
	return 0
}

// tooLong is longer than any allowed pause.
const tooLong = 1000 * time.Hour

// parseRetryAfter parses a Retry-After: seconds or a date. It reports false if the value is
// missing or invalid, or if the date is in the past: with a wrong clock, each pause would end
// immediately.
func parseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if isDigits(value) {
		return seconds(value), true
	}
	at, err := http.ParseTime(value)
	return at.Sub(now), err == nil && at.After(now)
}

// Numbers in X-RateLimit-Reset from these values on are times since 1970, in seconds and in
// milliseconds. Smaller numbers are seconds from now.
const (
	firstUnix      = 500_000_000     // in 1985; as seconds from now, 16 years
	firstUnixMilli = 500_000_000_000 // the same day
)

// parseReset parses an X-RateLimit-Reset. The service's libraries for browsers read seconds from
// now, and those for Node a time in milliseconds; others read a time in seconds. It reports
// false if the value is missing or invalid, or if the time is in the past.
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

// seconds parses a number of seconds. It returns tooLong for a number that is too large.
func seconds(digits string) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil { // does not fit an int32
		return tooLong
	}
	return min(time.Duration(n)*time.Second, tooLong)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
