package analytics

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/backo-go"
)

// verdict is what an answer means for a batch.
type verdict int

const (
	delivered verdict = iota
	retry             // the same batch may be taken later
	split             // the batch will never be taken, but parts of it may be
	refused           // the batch will never be taken
)

// statusClientClosed is sent by gateways whose client closed the connection before
// the answer, often for a time-out.
const statusClientClosed = 460

// classify returns what a status means for a batch. Status 0 is no answer: the
// connection failed, or the attempt timed out.
func classify(status int) verdict {
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests, statusClientClosed:
		return retry
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return refused
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return split
	}
	switch {
	case status >= 200 && status <= 299:
		return delivered
	case status >= 500:
		return retry
	}
	return refused
}

// maxRetryAfter bounds what a collector can ask for.
const maxRetryAfter = 300 * time.Second

// parseRetryAfter reads a Retry-After header: seconds, or a date. It returns 0 if the
// header is missing, in the past, or cannot be read.
func parseRetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if isDigits(header) {
		seconds, err := strconv.ParseInt(header, 10, 32)
		if err != nil { // more seconds than an int32 holds
			return maxRetryAfter
		}
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// backoff returns the wait after a number of failed attempts, at least one. It is
// shortened at random by up to a quarter, since the jitter of backo has no effect at
// its cap, when many clients retry at once. Ten attempts still take more than 24
// seconds, so that the restart of a collector costs no call.
func backoff(b *backo.Backo, failed int) time.Duration {
	d := max(b.Duration(failed-1), 0)
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}
