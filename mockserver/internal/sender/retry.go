package sender

import (
	"math/bits"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 10 * time.Minute
)

// backoff returns the delay after a failed attempt, using exponential backoff with full jitter.
// Attempts are counted from 1. The maximum delay is 1 s at first, doubles with each attempt, and is
// at most 10 min. The result is the maximum multiplied by random, which is in [0, 1).
func backoff(attempt int, random float64) time.Duration {
	ceiling := maxBackoff
	if doubled := max(attempt, 1) - 1; doubled < 10 { // 2^10 s is more than 10 min
		ceiling = min(firstBackoff<<doubled, maxBackoff)
	}
	if !(random > 0) { // also true for NaN
		return 0
	}
	return time.Duration(min(random, 1) * float64(ceiling))
}

// AttemptsIn returns the number of the attempt, counted from 1, that is made at time d if each
// delay before it has its maximum.
func AttemptsIn(d time.Duration) int { return bits.Len64(uint64(max(d, 0)/firstBackoff) + 1) }

// WindowPassed begins the reason of a call that failed because its [webhook.Window] has passed.
const WindowPassed = "4 hours have passed since the call was accepted; "

// Next returns the time of the next attempt after a failed attempt. Attempts are counted from 1. The
// delay is the longer of the backoff and retryAfter. If that is after end, the next attempt is the
// last one, at end. If end has passed, Next returns false, and the call fails permanently.
//
// If now has a monotonic clock reading, so does the result, and clock changes do not affect the
// delay. Clock changes affect the time until end.
func Next(now, end time.Time, attempt int, retryAfter time.Duration, random float64) (time.Time, bool) {
	left := end.Sub(now)
	if left <= 0 {
		return time.Time{}, false
	}
	return now.Add(min(max(backoff(attempt, random), retryAfter), left)), true
}

// MaxPause is the longest pause that one response can cause.
const MaxPause = 5 * time.Minute

// RequestedPause returns the pause of the destination that a response requires: a 429 or 503 response with
// Retry-After, or a response to a relay that would refuse all calls. It is between one second and five
// minutes, or 0.
func RequestedPause(a *webhook.Attempt) time.Duration {
	switch a.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusUnauthorized, http.StatusForbidden, http.StatusLoopDetected:
		return min(a.RetryAfter, MaxPause)
	}
	return 0
}

// minRetryAfter is the minimum delay after a Retry-After header.
const minRetryAfter = time.Second

// retryAfter parses a Retry-After header. It returns 0 for invalid values and past dates. Otherwise the
// result is at least one second and at most the window.
func retryAfter(value string, now time.Time) time.Duration {
	wait, ok := retry.ParseRetryAfter(value, now)
	if !ok {
		return 0
	}
	return min(max(wait, minRetryAfter), webhook.Window)
}
