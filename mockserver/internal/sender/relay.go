package sender

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// maxRelayed is the maximum size of a call in the tracking API in bytes.
	maxRelayed = 32 << 10
	// refusedPause is the pause of a relay after a response that does not depend on the calls.
	refusedPause = time.Minute
)

// A relay sends calls to the tracking API of another collector; see [webhook.TypeRelay].
type relay struct {
	plain atomic.Bool // the receiver refuses compressed bodies
}

func (*relay) element(c Content) ([]byte, error) {
	body := jsonscan.AppendWithout(make([]byte, 0, len(c.Body)), c.Body, func(m jsonscan.Member) bool {
		f := fields.Of(m.Key)
		return f == fields.ReceivedAt || f == fields.OriginalTimestamp || f == fields.SentAt || f == fields.Integrations && routing.IsScoped(m.Value)
	})
	if len(body) > maxRelayed {
		return nil, fmt.Errorf("the call has %d bytes; other collectors accept at most %d", len(body), maxRelayed)
	}
	return body, nil
}

func (*relay) enclose(now time.Time) (before, after string) {
	return `{"batch":[`, now.UTC().Format(`],"sentAt":"` + fields.TimeLayout + `"}`)
}

func (r *relay) request(c Content) (Request, error) {
	return Request{Body: c.Body, Number: c.Number, Relay: true, Gzip: !r.plain.Load()}, nil
}

// conclude applies the retry rules of the service's client libraries. After a response that does not
// depend on the calls, the calls wait until an operator corrects the settings.
func (r *relay) conclude(a *webhook.Attempt) (refused map[string]webhook.FailedCall) {
	if a.Reason != webhook.ReasonStatus {
		return nil
	}
	explanation, pause := "", time.Duration(0)
	switch policy := (&retry.Policy{}); {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		explanation, pause = "; check the write key", refusedPause
	case a.Status == http.StatusLoopDetected:
		explanation, pause = "; the endpoint is this collector", refusedPause
	case a.Status == http.StatusUnsupportedMediaType && a.RequestHeader.Get("Content-Encoding") != "":
		r.plain.Store(true)
		explanation = "; later requests are not compressed"
	case policy.Classify(a.Status) == retry.Retry:
		pause = policy.RetryAfter(a.Status, a.ResponseHeader, a.Time)
	default:
		a.Verdict, a.RetryAfter = webhook.Permanent, 0
		return nil
	}
	a.Verdict, a.RetryAfter = webhook.Temporary, pause
	a.Error += explanation
	return nil
}

// compressors is a pool of *gzip.Writer.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compress returns data compressed with gzip.
func compress(data []byte) []byte {
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(data) // writes to a buffer cannot fail
	_ = w.Close()
	return out.Bytes()
}
