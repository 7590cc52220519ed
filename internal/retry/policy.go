package retry

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/segmentio/backo-go"
)

// Verdict is the meaning of a response for a batch.
type Verdict int

const (
	Delivered Verdict = iota
	Again             // the same batch may be accepted later
	Split             // the batch is refused permanently, but parts of it may be accepted
	Refused           // the batch is refused permanently
)

// statusClientClosed is sent by gateways if the client closed the connection before the
// response, often because of a timeout.
const statusClientClosed = 460

// Defaults of the service's libraries for servers.
const (
	DefaultAttempts     = 10
	DefaultMaxBackoff   = 12 * time.Hour
	DefaultMaxRateLimit = 12 * time.Hour

	defaultBase          = 500 * time.Millisecond
	defaultCap           = time.Minute
	defaultMaxRetryAfter = 300 * time.Second
)

// DefaultBackoff returns the pauses of the service's libraries: half a second, twice as long
// each time, a minute at most.
func DefaultBackoff() func(retries int) time.Duration {
	return backo.NewBacko(defaultBase, 2, 0, defaultCap).Duration
}

// Policy determines when a batch is retried, and for how long. It must not be changed after
// its first use.
type Policy struct {
	// Attempts is the number of failures that count before a batch is dropped.
	Attempts int
	// Persist makes a batch start over after Attempts if the receiver has accepted no other
	// batch in the meantime: then the batch is not the cause.
	Persist bool
	// Backoff returns the pause before a retry. Retries is the number of previous retries
	// that count. A negative pause counts as 0.
	Backoff func(retries int) time.Duration
	// Exact disables the jitter, which shortens each pause by up to a quarter.
	Exact bool
	// MaxBackoff limits the time between the first failure that counts and the last attempt.
	MaxBackoff time.Duration
	// MaxRateLimit limits how long a receiver that accepts nothing may delay a batch.
	MaxRateLimit time.Duration

	// Set only by an httpConfig.
	statuses      map[int]Verdict // exceptions
	others        [2]Verdict      // of other 4xx and 5xx statuses; Delivered selects the default
	maxRetryAfter time.Duration   // 0 selects the default
	maxRateLimits int             // number of delays before a batch is dropped; 0 means no limit
	jitter        float64         // fraction by which a pause is longer or shorter; 0 selects the default of Exact
}

// Classify returns the verdict of a status. Status 0 means no response, because the connection
// failed or the attempt timed out.
func (p *Policy) Classify(status int) Verdict {
	if v, ok := p.statuses[status]; ok {
		return v
	}
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests, statusClientClosed:
		return Again
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
		return Again
	}
	return Refused
}

// Tries records the attempts with a batch. The zero value is a batch that was not sent.
type Tries struct {
	Requests int       // number of requests with the batch
	failed   *failures // nil before the first failure
}

// failures records the failed attempts with a batch.
type failures struct {
	counted int // failures that count
	round   int // counted since the batch was first sent or started over

	failing time.Time // time of the first failure that counts
	limited time.Time // since when the receiver delays the batch and accepts nothing
	limits  int       // number of delays

	takenRound, takenLimited int64 // number of calls that the receiver had accepted when round and limited started
}

// Step is the next step for a batch after a failed attempt.
type Step int

const (
	Wait      Step = iota // retry after a pause
	StartOver             // retry after a pause; batches that were not sent go first
	Exhausted             // drop the batch: all attempts failed
	Expired               // drop the batch: attempts failed for too long
)

// Pause is the pause before a retry.
type Pause struct {
	wait  time.Duration
	asked bool // by the receiver
}

// Pause returns the pause after a failed attempt that t does not contain yet. RetryAfter is the
// pause that the receiver requires, or 0. If it is 0, Pause calls Backoff, unless the batch
// will be dropped.
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

// Next adds a failed attempt to t. It returns the next step, and the pause before a retry. Taken
// is the number of calls that the receiver has accepted in all batches.
func (p *Policy) Next(t *Tries, pause Pause, taken int64, now time.Time) (Step, time.Duration) {
	if t.failed == nil {
		t.failed = &failures{}
	}
	f := t.failed
	if pause.asked {
		return p.limit(f, pause.wait, taken, now)
	}
	f.counted++
	if f.round++; f.round == 1 {
		f.takenRound = taken
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
	if p.Persist && f.takenRound == taken {
		f.round = 0
		return StartOver, pause.wait
	}
	return Exhausted, 0
}

// limit adds a delay by the receiver to f.
func (p *Policy) limit(f *failures, retryAfter time.Duration, taken int64, now time.Time) (Step, time.Duration) {
	if f.limits == 0 || f.takenLimited != taken {
		f.limited, f.takenLimited = now, taken
	}
	f.limits++
	if now.Add(retryAfter).Sub(f.limited) > p.MaxRateLimit || p.maxRateLimits > 0 && f.limits >= p.maxRateLimits {
		return Expired, 0
	}
	return Wait, retryAfter
}

// wait returns the pause before the next retry. The jitter of backo has no effect once the pause
// reaches its maximum, so wait shortens the pause by up to a quarter at random.
func (p *Policy) wait(retries int) time.Duration {
	d := min(max(p.Backoff(retries), 0), math.MaxInt64/4) // twice as much is still a valid duration
	switch {
	case p.jitter > 0:
		return time.Duration(float64(d) * (1 + p.jitter*(2*rand.Float64()-1)))
	case p.Exact:
		return d
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}
