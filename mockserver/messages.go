package mockserver

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// serveMessages answers the calls that came since they were drained last, or since
// the collector was started, without what differs each time. POST, or GET with the
// parameter drain, drains them.
func (c *Collector) serveMessages(w http.ResponseWriter, r *http.Request) {
	if refused := checkOrigin(r); refused != nil {
		refused.write(w)
		return
	}
	drain := r.Method == http.MethodPost || r.Method == http.MethodGet && r.URL.Query().Has("drain")
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentJSON, noSniff
	h.Set("Cache-Control", "no-store")
	body := []byte{'['}
	for _, call := range c.history.undrained(drain) {
		if call.ReceivedAt.Before(c.started) {
			continue // an earlier process took it
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = appendMessage(body, call.Body)
	}
	_, _ = w.Write(append(body, ']', '\n'))
}

// appendMessage writes a stored call without its messageId and its times.
func appendMessage(dst, call []byte) []byte {
	dst = append(dst, '{')
	s := jsonscan.New(call)
	_ = s.Object(func(key []byte) error {
		start := s.KeyOffset()
		_, err := s.Value()
		switch fieldOf(key) {
		case fieldMessageID, fieldTimestamp, fieldOriginalTimestamp, fieldSentAt, fieldReceivedAt:
		default:
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(dst, call[start:s.Offset()]...)
		}
		return err
	})
	return append(dst, '}')
}
