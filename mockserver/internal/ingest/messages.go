package ingest

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// NewMessagesHandler returns a handler that responds with the calls that were not taken yet,
// without fields that differ in each run. POST, or GET with the parameter drain, also takes
// them.
func NewMessagesHandler(messages func(take bool) []tracking.Call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		take := r.Method == http.MethodPost || r.Method == http.MethodGet && r.URL.Query().Has("drain")
		header := w.Header()
		header["Content-Type"], header["X-Content-Type-Options"] = contentJSON, noSniff
		header.Set("Cache-Control", "no-store")
		body := []byte{'['}
		for _, call := range messages(take) {
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = appendMessage(body, call.Body)
		}
		_, _ = w.Write(append(body, ']', '\n'))
	})
}

// appendMessage appends a stored call without its messageId and times.
func appendMessage(dst, call []byte) []byte {
	dst = append(dst, '{')
	for m := range jsonscan.Members(call) {
		switch fields.Of(m.Key) {
		case fields.MessageID, fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt:
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, m.Text...)
	}
	return append(dst, '}')
}
