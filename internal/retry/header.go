package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderCount is the header of a request that says how many attempts with the same
// batch came before. The first has none.
const HeaderCount = "X-Retry-Count"

const (
	headerRetryAfter = "Retry-After"
	headerReset      = "X-RateLimit-Reset"

	// minRetryAfter keeps clients from turning in circles.
	minRetryAfter = time.Second
)

// RetryAfter returns how long an answer asks to wait, from a second to five minutes, or 0
// if it does not: by Retry-After with each status that is tried again, or else by
// X-RateLimit-Reset with 429.
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

// tooLong is longer than any wait that is allowed.
const tooLong = 1000 * time.Hour

// parseRetryAfter reads a Retry-After: seconds, or a date. It reports false if it is
// missing or cannot be read, and for a date in the past: a clock that is wrong would
// have every wait end at once.
func parseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if isDigits(value) {
		return seconds(value), true
	}
	at, err := http.ParseTime(value)
	return at.Sub(now), err == nil && at.After(now)
}

// Numbers in an X-RateLimit-Reset from which on it is a time since 1970, in seconds and in
// milliseconds. Below, it is seconds from now.
const (
	firstUnix      = 500_000_000     // in 1985; as seconds from now, 16 years
	firstUnixMilli = 500_000_000_000 // the same day
)

// parseReset reads an X-RateLimit-Reset. The service's libraries have read it as seconds
// from now, in browsers, and as a time in milliseconds, in Node; others, as a time in
// seconds. It reports false if it is missing or cannot be read, and for a time in the
// past.
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

// seconds returns the time that a number of seconds in digits is, or tooLong.
func seconds(digits string) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil { // more than an int32 holds
		return tooLong
	}
	return min(time.Duration(n)*time.Second, tooLong)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
