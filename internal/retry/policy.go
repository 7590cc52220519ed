package retry

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/segmentio/backo-go"
)

// Verdict is the result of an attempt, derived from the status.
type Verdict int

const (
	Delivered Verdict = iota
	Retry             // the collector may accept the same batch later
	Split             // the collector refuses the batch permanently, but may accept parts of it
	Refused           // the collector refuses the batch permanently
)

// statusClientClosed is the status 460 of some gateways. It means that the client closed the
// connection before the response, often because of a timeout.
const statusClientClosed = 460

// These are the defaults of the service's server libraries.
const (
	DefaultAttempts     = 10
	DefaultMaxBackoff   = 12 * time.Hour
	DefaultMaxRateLimit = 12 * time.Hour

	defaultBase          = 500 * time.Millisecond
	defaultCap           = time.Minute
	defaultMaxRetryAfter = 300 * time.Second
)

// DefaultBackoff returns the backoff of the service's libraries. The first pause is half a second,
// and each following pause is twice as long, up to a minute.
func DefaultBackoff() func(retries int) time.Duration {
	return backo.NewBacko(defaultBase, 2, 0, defaultCap).Duration
}

// Policy determines whether and when a batch is retried. It must not be changed after its first
// use.
type Policy struct {
	// Attempts is the number of counted failures after which a batch is dropped.
	Attempts int
	// Persist makes a batch start over after Attempts, if the receiver has accepted no other
	// batch in the meantime. The receiver is then probably the cause of the failures.
	Persist bool
	// Backoff returns the pause before a retry. retries is the number of previous retries that
	// count. A negative pause is treated as 0.
	Backoff func(retries int) time.Duration
	// Exact disables jitter. Otherwise each pause is shortened by up to a quarter.
	Exact bool
	// MaxBackoff limits the time between the first counted failure and the last attempt.
	MaxBackoff time.Duration
	// MaxRateLimit limits how long a receiver may delay a batch while it accepts no calls.
	MaxRateLimit time.Duration

	// The following fields are set only by an httpConfig.
	statuses      map[int]Verdict // verdicts for single statuses
	others        [2]Verdict      // verdicts for other 4xx and 5xx statuses; Delivered means the default
	maxRetryAfter time.Duration   // 0 means the default
	maxRateLimits int             // number of delays after which a batch is dropped; 0 means no limit
	jitter        float64         // fraction by which a pause is lengthened or shortened; 0 means the jitter that Exact selects
}

// Classify returns the verdict for a status. Status 0 means that there was no response.
func (p *Policy) Classify(status int) Verdict {
	if v, ok := p.statuses[status]; ok {
		return v
	}
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests, statusClientClosed:
		return Retry
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return Refused
	}
	if class := status/100 - 4; (class == 0 || class == 1) && p.others[class] != Delivered {
		return p.others[class]
	}
	switch {
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge:
		return Split
	case status >= 200 && status <= 299:
		return Delivered
	case status >= 500:
		return Retry
	}
	return Refused
}

// Tries records the attempts to send a batch. The zero value is a batch that has not been sent.
type Tries struct {
	Requests int       // number of attempts
	failed   *failures // nil before the first failure
}

// failures records the failed attempts to send a batch.
type failures struct {
	counted int // number of failures that count
	round   int // number of failures that count since the batch was first sent or last started over

	failing time.Time // time of the first failure that counts
	limited time.Time // time when the receiver began to delay the batch while accepting no calls
	limits  int       // number of times the receiver has delayed the batch

	acceptedAtRound   int64 // number of calls that the receiver had accepted at the start of round
	acceptedAtLimited int64 // number of calls that the receiver had accepted at the time limited
}

// Step is the action after a failed attempt.
type Step int

const (
	Wait      Step = iota // retry the batch after a pause
	StartOver             // retry the batch after a pause, and send unsent batches first
	Exhausted             // drop the batch, because all attempts failed
	Expired               // drop the batch, because attempts failed for too long
)

// Pause is the pause before a retry.
type Pause struct {
	wait     time.Duration
	required bool // the receiver required the pause
}

// Pause returns the pause after a failed attempt. t does not include this attempt yet. retryAfter
// is the pause that the receiver requires, or 0. If it is 0 and the batch will not be dropped,
// Pause calls Backoff.
func (p *Policy) Pause(t *Tries, retryAfter time.Duration) Pause {
	if retryAfter > 0 {
		return Pause{retryAfter, true}
	}
	var f failures
	if t.failed != nil {
		f = *t.failed
	}
	if f.round+1 >= p.Attempts && !p.Persist {
		return Pause{}
	}
	return Pause{wait: p.wait(f.counted)}
}

// Next adds a failed attempt to t. It returns the next step and the pause before it. accepted is
// the total number of calls that the receiver has accepted.
func (p *Policy) Next(t *Tries, pause Pause, accepted int64, now time.Time) (Step, time.Duration) {
	if t.failed == nil {
		t.failed = &failures{}
	}
	f := t.failed
	if pause.required {
		return p.limit(f, pause.wait, accepted, now)
	}
	f.counted++
	if f.round++; f.round == 1 {
		f.acceptedAtRound = accepted
	}
	if f.counted == 1 {
		f.failing = now
	}
	if now.Add(pause.wait).Sub(f.failing) > p.MaxBackoff {
		return Expired, 0
	}
	if f.round < p.Attempts {
		return Wait, pause.wait
	}
	if p.Persist && f.acceptedAtRound == accepted {
		f.round = 0
		return StartOver, pause.wait
	}
	return Exhausted, 0
}

// limit records that the receiver has delayed the batch.
func (p *Policy) limit(f *failures, retryAfter time.Duration, accepted int64, now time.Time) (Step, time.Duration) {
	if f.limits == 0 || f.acceptedAtLimited != accepted {
		f.limited, f.acceptedAtLimited = now, accepted
	}
	f.limits++
	if now.Add(retryAfter).Sub(f.limited) > p.MaxRateLimit || p.maxRateLimits > 0 && f.limits >= p.maxRateLimits {
		return Expired, 0
	}
	return Wait, retryAfter
}

// wait returns the pause before the next retry. The jitter of package backo has no effect when a
// pause reaches the maximum. So wait applies its own jitter.
func (p *Policy) wait(retries int) time.Duration {
	d := min(max(p.Backoff(retries), 0), math.MaxInt64/4) // twice the pause must still be a valid duration, because jitter can double it
	switch {
	case p.jitter > 0:
		return time.Duration(float64(d) * (1 + p.jitter*(2*rand.Float64()-1)))
	case p.Exact:
		return d
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}
