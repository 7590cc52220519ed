package mockserver_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestDestinationRedactsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		private, open := hook("private", "http://h/private"), hook("open", "http://h/open")
		private.Redact = tracking.Redaction{Remove: []string{"context.ip"}, Mask: []string{"properties.card"}, Hash: []string{"userId"}}
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{private, open}, RedactKey: []byte("key")})
		bodies := map[string]chan string{"/private": make(chan string, 1), "/open": make(chan string, 1)}
		for path, bodies := range bodies {
			h.answer(path, func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				bodies <- string(body)
			})
		}
		send(t, srv, `{"batch":[{"type":"track","event":"Paid","userId":"ada","messageId":"1","context":{"ip":"1.2.3.4"},"properties":{"card":"4111111111111234"}}]}`)
		got := <-bodies["/private"]
		assert.Contains(t, got, `"properties":{"card":"****1234"}`)
		assert.Contains(t, got, `"context":{}`)
		assert.NotContains(t, got, "ada")
		assert.Contains(t, <-bodies["/open"], "4111111111111234")
		assert.Contains(t, string(srv.Engine().History().Records(nil)[0].Call.Body), "4111111111111234", "the call is stored unchanged")
		attempts, err := srv.Engine().SendTest(t.Context(), private, "track")
		require.NoError(t, err)
		assert.NotContains(t, string(attempts[0].RequestBody), "test-user")
	})
}

func TestRedactionInTheAPI(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{})
	status, answer := askAdmin(t, srv, "POST", "/destinations", `{"name":"crm","webhooks":[{"url":"http://127.0.0.1:1"}],"redact":{"remove":["ip"],"hash":["userId"]}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, answer["message"], `redact.remove[0]: is "ip", which does not start with context, properties or traits`)
	assert.Contains(t, answer["message"], "redact.hash: requires a key: set redactKey in the configuration file")

	status, answer = askAdmin(t, srv, "POST", "/destinations", `{"name":"crm","webhooks":[{"url":"http://127.0.0.1:1"}],"redact":{"remove":["context.ip"]}}`)
	require.Equal(t, http.StatusCreated, status, answer)
	assert.Equal(t, object{"remove": []any{"context.ip"}}, answer["redact"])
	status, answer = askAdmin(t, srv, "PATCH", "/destinations/crm", `{"redact":{}}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, object{}, answer["redact"])

	status, answer = askAdmin(t, srv, "POST", "/sources", `{"name":"web","redact":{"mask":["userId"]}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, answer["message"], `redact.mask[0]: is "userId", which can only be hashed`)
}
