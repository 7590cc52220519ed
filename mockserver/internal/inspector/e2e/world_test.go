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

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// adminToken is the token of the login tests.
const adminToken = "correct horse battery staple"

// serve starts a collector with an inspector. With a token, the inspector requires a login.
func serve(t *testing.T, config engine.Config, token string) (*httptest.Server, *engine.Collector) {
	t.Helper()
	config.AnyWriteKey = config.AnyWriteKey || len(config.Sources) == 0
	config.Sender.Policy.AllowLoopback = true
	config.Sender.Timeout = patience // receivers can be slow on a busy machine
	collector, err := engine.New(config)
	require.NoError(t, err)
	guard, err := access.NewGuard(access.GuardConfig{Token: token, Loopback: true})
	require.NoError(t, err)
	inspector := inspector.New(collector, inspector.Config{Guard: guard})
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = access.NewHTTPServer(inspector.Wrap(collector))
	srv.Start()
	t.Cleanup(func() {
		inspector.Close()
		srv.CloseClientConnections()
		srv.Close()
		_ = collector.Close()
	})
	return srv, collector
}

// A receiver is a webhook with a configurable status.
type receiver struct {
	*httptest.Server
	status atomic.Int32

	mu     sync.Mutex // guards the fields below
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
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"answer": %d, "from": "the receiver"}`, status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() ([]string, []http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...), append([]http.Header(nil), r.heads...)
}

// to returns a destination with one webhook and a static header.
func to(name, url, secret string, sources ...string) tracking.Destination {
	return tracking.Destination{Name: name, Sources: sources, Settings: webhook.Settings{
		Webhooks:     []webhook.Endpoint{{URL: url + "/" + name, Headers: map[string]string{"X-Team": "growth"}}},
		SharedSecret: secret,
	}}
}

// post sends a batch of JSON objects.
func post(t *testing.T, base, writeKey string, calls ...string) {
	t.Helper()
	require.Equal(t, http.StatusOK, postTo(t, base+"/v1/batch", writeKey, `{"batch":[`+strings.Join(calls, ",")+`]}`))
}

// sender opens a connection for each request, because tests close the server's connections.
var sender = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func postTo(t *testing.T, url, writeKey, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.SetBasicAuth(writeKey, "")
	res, err := sender.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// track returns a track call. properties is a JSON object.
func track(id, user, event, properties string) string {
	return fmt.Sprintf(`{"type":"track","messageId":%s,"userId":%s,"event":%s,"properties":%s}`, quote(id), quote(user), quote(event), properties)
}

// sendList starts a sync, and waits until all its calls are stored.
func sendList(t *testing.T, collector *engine.Collector, r users.SyncRequest) {
	t.Helper()
	s, err := collector.Users().StartSync(t.Context(), r)
	require.NoError(t, err)
	computation, _, _ := strings.Cut(s.ID, "-")
	changes, err := collector.StateStore().Watch(t.Context(), "computation."+computation)
	require.NoError(t, err)
	for {
		s, err = collector.Users().Sync(t.Context(), s.ID)
		require.NoError(t, err)
		if s.State == users.SyncDone {
			return
		}
		<-changes
	}
}
