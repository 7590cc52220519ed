package ingest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestMessagesHandler(t *testing.T) {
	var drained bool
	handler := ingest.NewMessagesHandler(func(drain bool) []tracking.Call {
		drained = drain
		return []tracking.Call{{Body: []byte(`{"messageId":"m","event":"A","userId":"u"}`)}, {Body: []byte(`{"sentAt":"2026-01-01T00:00:00Z"}`)}}
	})
	for _, test := range []struct {
		method, path string
		drain        bool
	}{{http.MethodGet, "/", false}, {http.MethodGet, "/?drain", true}, {http.MethodPost, "/", true}, {http.MethodHead, "/?drain", false}} {
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, httptest.NewRequest(test.method, test.path, nil))
		assert.Equal(t, test.drain, drained, "%s %s", test.method, test.path)
		assert.Equal(t, `[{"event":"A","userId":"u"},{}]`+"\n", res.Body.String())
	}
}
