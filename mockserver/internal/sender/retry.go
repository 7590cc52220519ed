package sender

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 10 * time.Minute
)

// backoff is the delay after attempt number attempt, counted from 1, has failed:
// random, from 0 up to 1, of a ceiling that is 1 s at first, doubles with each
// attempt and stays at 10 min (exponential with full jitter).
func backoff(attempt int, random float64) time.Duration {
	ceiling := maxBackoff
	if doubled := max(attempt, 1) - 1; doubled < 10 { // 2^10 s is more than 10 min
		ceiling = min(firstBackoff<<doubled, maxBackoff)
	}
	if !(random > 0) { // also NaN
		return 0
	}
	return time.Duration(min(random, 1) * float64(ceiling))
}

// Next is when to attempt a call again whose attempt number attempt has just
// failed: after the backoff, but not before retryAfter is over. What would come
// after the end of the window comes at its end instead, as the last attempt.
// false: the window is over, the call has failed.
//
// Where now has a monotonic clock reading the result has one, too: a step of the clock
// does not change how long the pause is. One that steps back makes the window of calls
// that were accepted before longer by the step, one that steps forward shorter.
func Next(now, accepted time.Time, attempt int, retryAfter time.Duration, random float64) (time.Time, bool) {
	left := accepted.Add(webhook.Window).Sub(now)
	if left <= 0 {
		return time.Time{}, false
	}
	return now.Add(min(max(backoff(attempt, random), retryAfter), left)), true
}

// MaxHold is the longest that a receiver can have its destination left alone by one answer.
const MaxHold = 5 * time.Minute

// Hold returns how long a receiver that answered 429 or 503 asked by Retry-After to be left
// alone, from a second to five minutes; 0 if it did not.
func Hold(a *webhook.Attempt) time.Duration {
	if a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable {
		return 0
	}
	return min(a.RetryAfter, MaxHold)
}

// minRetryAfter keeps calls from turning in circles.
const minRetryAfter = time.Second

// retryAfter reads a Retry-After header, in seconds or as a date. What cannot be read, or is
// a date that is past, is 0; what is shorter than a second is a second, and what is longer
// than the window is the window.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if value[0] >= '0' && value[0] <= '9' {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0
		}
		return max(time.Duration(min(seconds, uint64(webhook.Window/time.Second)))*time.Second, minRetryAfter)
	}
	date, err := http.ParseTime(value)
	if err != nil || !date.After(now) {
		return 0
	}
	return min(max(date.Sub(now), minRetryAfter), webhook.Window)
}
