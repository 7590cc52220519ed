package mockserver

import (
	"io"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
)

// before returns an engine.Config.WrapTransport that applies faults to deliveries. If
// outer is not nil, outer wraps the faulty transport.
func (fs *faults) before(outer func(http.RoundTripper) http.RoundTripper) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		next = &faultyTransport{fs, next}
		if outer != nil {
			next = outer(next)
		}
		return next
	}
}

// A faultyTransport applies faults to requests to webhooks.
type faultyTransport struct {
	faults *faults
	next   http.RoundTripper
}

func (t *faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	delivery, ok := delivery.FromContext(r.Context())
	if !ok {
		return t.next.RoundTrip(r)
	}
	f := t.faults.take(func(f *Fault) bool {
		return (f.Destination == "" || f.Destination == delivery.Destination) &&
			(f.source == "" || f.source == delivery.Source) && (f.Match == nil || f.Match(r))
	})
	if f == nil {
		return t.next.RoundTrip(r)
	}
	if f.Delay > 0 {
		if err := pause.For(r.Context(), f.Delay); err != nil {
			return nil, err
		}
	}
	if !f.answers() {
		return t.next.RoundTrip(r)
	}
	if f.AnswerOnly {
		if res, err := t.next.RoundTrip(r); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, sender.KeptBody))
			_ = res.Body.Close()
		}
	}
	if f.Hang {
		<-r.Context().Done() // the Sender's timeout
		return nil, r.Context().Err()
	}
	return NewTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { f.answer(w, f.Body) })).RoundTrip(r)
}
