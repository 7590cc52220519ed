package ingest

import (
	"net/http"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// NewMessagesHandler returns a handler that responds with the calls that were not taken yet,
// without fields that differ between runs. POST, or GET with the parameter drain, also takes
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
			body = jsonscan.AppendWithout(body, call.Body, func(m jsonscan.Member) bool { return slices.Contains(variable, fields.Of(m.Key)) })
		}
		_, _ = w.Write(append(body, ']', '\n'))
	})
}

// variable contains the fields that differ in each run.
var variable = []fields.Field{fields.MessageID, fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt}
