package webhook

import (
	"cmp"
	"fmt"
	"time"
)

// A Batch configures requests with several calls. The body of such a request is a JSON array. Each
// element is the body of a call, with an additional last field messageId. The request has no
// X-Message-Id header. Its signatures cover the array. X-Attempt is the highest attempt number of its
// calls.
//
// A response without 2xx applies to all calls, but if it is 400, 413 or 422, the calls are sent again
// in smaller batches, so that only the refused calls fail. A 2xx response can refuse single calls,
// see [BatchResponse].
type Batch struct {
	// Calls is the maximum number of calls of a request, from 2 to 1,000. 0 sends each call in its
	// own request. Defaults to 100 for a relay.
	Calls int `json:"calls,omitempty"`
	// Bytes is the maximum size of the body in bytes, from 1,000 to 1,000,000. A longer call is
	// sent alone. Defaults to 500,000.
	Bytes int `json:"bytes,omitempty"`
	// Wait is how long a call waits for others, from 10 ms to 10 s. Defaults to 1 s.
	Wait Duration `json:"wait,omitempty"`
}

// A Duration is a time.Duration whose text is in the format of [time.ParseDuration].
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("use a duration such as 1s")
	}
	*d = Duration(parsed)
	return nil
}

// Limits and defaults of a Batch.
const (
	minBatchCalls, maxBatchCalls = 2, 1000
	minBatchBytes, maxBatchBytes = 1000, 1_000_000
	minBatchWait, maxBatchWait   = Duration(10 * time.Millisecond), Duration(10 * time.Second)
	defaultRelayCalls            = 100
	defaultBatchBytes            = 500_000
	defaultBatchWait             = Duration(time.Second)
)

// Batches returns Batch with its defaults. Calls is 0 if each call has its own request.
func (s *Settings) Batches() Batch {
	b := s.Batch
	if b.Calls == 0 && s.Type == TypeRelay {
		b.Calls = defaultRelayCalls
	}
	b.Bytes = cmp.Or(b.Bytes, defaultBatchBytes)
	b.Wait = cmp.Or(b.Wait, defaultBatchWait)
	return b
}

func (p *problems) batch(s Settings) {
	b := s.Batch
	switch {
	case b.Calls != 0 && (b.Calls < minBatchCalls || b.Calls > maxBatchCalls):
		p.add("batch.calls", fmt.Sprintf("is %d", b.Calls), "use a number from 2 to 1,000, or omit it")
	case s.Batches().Calls == 0 && b != Batch{}:
		p.add("batch.calls", "is missing", "set the number of calls, or omit batch")
	}
	if b.Bytes != 0 && (b.Bytes < minBatchBytes || b.Bytes > maxBatchBytes) {
		p.add("batch.bytes", fmt.Sprintf("is %d", b.Bytes), "use a number from 1,000 to 1,000,000, or omit it")
	}
	if b.Wait != 0 && (b.Wait < minBatchWait || b.Wait > maxBatchWait) {
		p.add("batch.wait", fmt.Sprintf("is %v", time.Duration(b.Wait)), "use a duration from 10ms to 10s, or omit it")
	}
}

// A BatchResponse is the optional body of a 2xx response to a [Batch]. The calls that it does not
// name are delivered. If a body has a field failed in another format, all calls of the batch are
// retried. Any other body names no call.
type BatchResponse struct {
	Failed []FailedCall `json:"failed"`
}

// A FailedCall is a call of a batch that the receiver did not accept.
type FailedCall struct {
	MessageID string `json:"messageId"`
	// Retry requests another attempt. Otherwise the call fails permanently.
	Retry bool `json:"retry"`
	// Reason is shown to the operator. Its first 200 bytes are kept.
	Reason string `json:"reason"`
}
