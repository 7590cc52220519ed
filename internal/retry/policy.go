package retry

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/segmentio/backo-go"
)

// A Verdict is what an answer means for a batch.
type Verdict int

const (
	Delivered Verdict = iota
	Again             // the same batch may be taken later
	Split             // the batch will never be taken, but parts of it may be
	Refused           // the batch will never be taken
)

// statusClientClosed is sent by gateways whose client closed the connection before
// the answer, often for a time-out.
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

// DefaultBackoff returns the waits of the service's libraries: half a second at first,
// twice as long each time, a minute at most.
func DefaultBackoff() func(retries int) time.Duration {
	return backo.NewBacko(defaultBase, 2, 0, defaultCap).Duration
}

// A Policy says when a batch is sent again, and for how long. It is not changed once it
// is used.
type Policy struct {
	// Attempts is how many failures of a batch count before it is given up.
	Attempts int
	// Persist has a batch whose Attempts are used up start over, if the receiver has
	// taken no other meanwhile: then the batch is not what is wrong.
	Persist bool
	// Backoff returns how long a batch waits before it is sent again, after a number of
	// retries that counted: 0 for the first wait. What is negative counts as 0.
	Backoff func(retries int) time.Duration
	// Exact takes the waits of Backoff as they are. Otherwise jitter makes each up to a
	// quarter shorter.
	Exact bool
	// MaxBackoff is how long after its first failure that counts a batch is sent for
	// the last time.
	MaxBackoff time.Duration
	// MaxRateLimit is how long a receiver that takes nothing may ask a batch to wait.
	MaxRateLimit time.Duration

	// What only an httpConfig sets.
	statuses      map[int]Verdict // those that mean something else; nil for none
	others        [2]Verdict      // of a 4xx and a 5xx that is not in statuses; Delivered for the default
	maxRetryAfter time.Duration   // 0 for the default
	maxRateLimits int             // a batch is given up when it is asked to wait that often; 0 for never
	jitter        float64         // the part by which a wait is longer or shorter; 0 for the default of Exact
}

// Classify returns what a status means for a batch. Status 0 is no answer: the
// connection failed, or the attempt timed out.
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

// Tries are what a batch has met so far. The zero value is a batch that was not sent.
type Tries struct {
	Requests int       // made with the batch
	failed   *failures // nil before the first: most batches need none
}

// failures are the attempts with a batch that failed.
type failures struct {
	counted int // those that count
	round   int // those of counted since the batch was first sent, or started over

	failing time.Time // when the first of counted was
	limited time.Time // since when the receiver asks to wait, and takes nothing
	limits  int       // times that it did

	takenRound, takenLimited int64 // what the receiver had taken as round and limited began
}

// A Step is what comes next for a batch whose attempt failed and that may be taken
// later.
type Step int

const (
	Wait      Step = iota // the batch is sent again after a time
	StartOver             // likewise, and batches that were not sent yet go first
	Exhausted             // the batch is given up: its attempts are used up
	Expired               // the batch is given up: its time is over
)

// A Pause is how long a batch waits before it is sent again.
type Pause struct {
	wait  time.Duration
	asked bool // by the receiver
}

// Pause returns how long a batch waits after an attempt that failed, of which t does not
// know yet. The receiver asked to wait for retryAfter, 0 if it did not: then Pause calls
// Backoff, unless the batch will be given up.
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

// Next notes a failed attempt in t, and returns what comes next and after how long: the
// pause, if the batch is sent again. The receiver has taken a number of calls so far, in
// whichever batches.
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

// limit notes in f that the receiver asked to wait.
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

// wait returns how long a batch waits after a number of retries. The jitter of backo has
// no effect at its cap, when many clients retry at once, so that there is another: up to a
// quarter less.
func (p *Policy) wait(retries int) time.Duration {
	d := min(max(p.Backoff(retries), 0), math.MaxInt64/4) // twice as long is still a duration
	switch {
	case p.jitter > 0:
		return time.Duration(float64(d) * (1 + p.jitter*(2*rand.Float64()-1)))
	case p.Exact:
		return d
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}
