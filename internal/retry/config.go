package retry

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/segmentio/backo-go"
)

// httpConfig contains the retry settings of a source, with times in seconds. A missing field does
// not change the policy.
type httpConfig struct {
	RateLimit *struct {
		Enabled              *bool    `json:"enabled"`
		MaxRetryCount        *float64 `json:"maxRetryCount"`
		MaxRetryInterval     *float64 `json:"maxRetryInterval"`
		MaxRateLimitDuration *float64 `json:"maxRateLimitDuration"`
	} `json:"rateLimitConfig"`
	Backoff *struct {
		Enabled                 *bool             `json:"enabled"`
		MaxRetryCount           *float64          `json:"maxRetryCount"`
		BaseBackoffInterval     *float64          `json:"baseBackoffInterval"`
		MaxBackoffInterval      *float64          `json:"maxBackoffInterval"`
		MaxTotalBackoffDuration *float64          `json:"maxTotalBackoffDuration"`
		JitterPercent           *float64          `json:"jitterPercent"`
		Default4xxBehavior      string            `json:"default4xxBehavior"`
		Default5xxBehavior      string            `json:"default5xxBehavior"`
		StatusCodeOverrides     map[string]string `json:"statusCodeOverrides"`
	} `json:"backoffConfig"`
}

// FromSettings returns a copy of p with the settings of a source. settings is the JSON response of
// the service's settings endpoint. Missing settings, and parts in which enabled is false, do not
// change p. Numbers are limited to the service's range. Unknown behaviors and statuses are
// ignored. If the settings cannot be read, FromSettings returns p and an error.
func (p Policy) FromSettings(settings []byte) (Policy, error) {
	var s struct {
		Integrations map[string]json.RawMessage `json:"integrations"`
	}
	if err := json.Unmarshal(settings, &s); err != nil {
		return p, fmt.Errorf("invalid settings: %w", err)
	}
	var own struct {
		HTTPConfig httpConfig `json:"httpConfig"`
	}
	if raw, ok := s.Integrations["Segment.io"]; ok {
		if err := json.Unmarshal(raw, &own); err != nil {
			return p, fmt.Errorf(`integrations["Segment.io"].httpConfig cannot be read: %w`, err)
		}
	}
	p.apply(&own.HTTPConfig)
	return p, nil
}

// apply sets the fields of p to the values of an httpConfig.
func (p *Policy) apply(c *httpConfig) {
	if r := c.RateLimit; r != nil && (r.Enabled == nil || *r.Enabled) {
		if r.MaxRetryCount != nil {
			p.maxRateLimits = count(r.MaxRetryCount) + 1
		}
		set(&p.maxRetryAfter, r.MaxRetryInterval, time.Second, day)
		set(&p.MaxRateLimit, r.MaxRateLimitDuration, 10*time.Second, day)
	}
	b := c.Backoff
	if b == nil || b.Enabled != nil && !*b.Enabled {
		return
	}
	if b.MaxRetryCount != nil {
		p.Attempts, p.Persist = count(b.MaxRetryCount)+1, false
	}
	if b.BaseBackoffInterval != nil || b.MaxBackoffInterval != nil {
		base, most := defaultBase, defaultCap
		set(&base, b.BaseBackoffInterval, 100*time.Millisecond, 300*time.Second)
		set(&most, b.MaxBackoffInterval, 100*time.Millisecond, day)
		p.Backoff, p.Exact = backo.NewBacko(base, 2, 0, most).Duration, false
	}
	set(&p.MaxBackoff, b.MaxTotalBackoffDuration, time.Minute, 7*day)
	if b.JitterPercent != nil {
		p.jitter = clamp(*b.JitterPercent, 0.001, 100) / 100
	}
	for i, behavior := range []string{b.Default4xxBehavior, b.Default5xxBehavior} {
		if v, ok := verdictOf(behavior, 0); ok {
			p.others[i] = v
		}
	}
	p.override(b.StatusCodeOverrides)
}

// override changes the verdicts for single statuses.
func (p *Policy) override(behaviors map[string]string) {
	statuses := map[int]Verdict{}
	maps.Copy(statuses, p.statuses)
	for key, behavior := range behaviors {
		status, err := strconv.Atoi(key)
		if err != nil || status < 300 || status > 599 { // a 2xx response must not cause a retry
			continue
		}
		if v, ok := verdictOf(behavior, status); ok {
			statuses[status] = v
		}
	}
	p.statuses = statuses
}

// verdictOf returns the verdict for a status. behavior is "retry" or "drop". Status 0 stands for all
// statuses that are not listed. For 400 and 413, "drop" means that the batch is split first, so
// that its valid calls are delivered.
func verdictOf(behavior string, status int) (v Verdict, known bool) {
	switch behavior {
	case "retry":
		return Retry, true
	case "drop":
		if status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge {
			return Split, true
		}
		return Refused, true
	}
	return 0, false
}

const day = 24 * time.Hour

// count limits the number of retries to the service's range.
func count(n *float64) int { return int(clamp(*n, 0, 100)) }

// set sets d to a number of seconds between least and most. It does nothing if seconds is nil.
func set(d *time.Duration, seconds *float64, least, most time.Duration) {
	if seconds != nil {
		*d = time.Duration(clamp(*seconds, least.Seconds(), most.Seconds()) * float64(time.Second))
	}
}

func clamp(v, least, most float64) float64 { return min(max(v, least), most) }
