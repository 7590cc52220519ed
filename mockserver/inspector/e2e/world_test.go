package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A receiver is a webhook that answers as it is told.
type receiver struct {
	*httptest.Server
	status atomic.Int32

	mu     sync.Mutex // guards what follows
	bodies []string
	heads  []http.Header
}

func newReceiver(t *testing.T, status int) *receiver {
	r := &receiver{}
	r.status.Store(int32(status))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies, r.heads = append(r.bodies, string(body)), append(r.heads, req.Header.Clone())
		r.mu.Unlock()
		status := int(r.status.Load())
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"answer": %d, "from": "the receiver"}`, status)
	}))
	t.Cleanup(r.Close)
	return r
}

func destination(name, url, secret string, sources ...string) mockserver.Destination {
	return mockserver.Destination{Name: name, Sources: sources, Settings: webhook.Settings{
		Webhooks:     []webhook.Endpoint{{URL: url + "/" + name, Headers: map[string]string{"X-Team": "growth"}}},
		SharedSecret: secret,
	}}
}

// post sends the calls of one batch, each a JSON object.
func post(t *testing.T, base, writeKey string, calls ...string) {
	t.Helper()
	postTo(t, base+"/v1/batch", writeKey, `{"batch":[`+strings.Join(calls, ",")+`]}`)
}

func postTo(t *testing.T, url, writeKey, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.SetBasicAuth(writeKey, "")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func track(id, user, event, properties string) string {
	return fmt.Sprintf(`{"type":"track","messageId":%q,"userId":%q,"event":%s,"properties":%s}`, id, user, quote(event), properties)
}
