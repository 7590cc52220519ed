package cli

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

func TestHealth(t *testing.T) {
	collector, err := engine.New(engine.Config{AnyWriteKey: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = collector.Close() })
	serve := func(h http.HandlerFunc) string {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL
	}
	running := serve(collector.ServeHTTP)
	unready := serve(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/ready", r.URL.Path)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"unavailable","message":"the disk is full"}`)
	})
	other := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	release := make(chan struct{})
	silent := serve(func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	const closed = "http://127.0.0.1:1" // a port that is never assigned dynamically
	t.Setenv("COLLECTOR_URL", running)
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"of the environment", []string{"--timeout", "1m"}, 0, "ready\n"},
		{"not ready", []string{"--timeout", "1m", "--url", unready}, 1, "collector: not ready: the disk is full\n"},
		{"another program", []string{"--timeout", "1m", "--url", other}, 1, "collector: the response (200 OK) is not from a collector: check --url\n"},
		{"no answer", []string{"--url", silent, "--timeout", "50ms"}, 1, "collector: " + silent + " did not respond in time\n"},
		{"nothing listens", []string{"--url", closed}, 1, "collector: no collector at " + closed + ": start one with collector dev, or set --url\n"},
		{"both", []string{"--url", running, "--config", "x"}, 1, "collector: --url and --config cannot be used together\n"},
		{"unknown flag", []string{"--wait"}, 1, "collector: unknown flag: --wait: see collector health --help\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errOut, code := run(t, append([]string{"health"}, c.args...)...)
			assert.Equal(t, c.code, code)
			assert.Equal(t, c.want, out+errOut)
		})
	}
}

// TestHealthWithConfig checks that the command finds the listener of the configuration, with and
// without TLS.
func TestHealthWithConfig(t *testing.T) {
	collector, err := engine.New(engine.Config{AnyWriteKey: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = collector.Close() })
	plain, secure := httptest.NewServer(collector), httptest.NewTLSServer(collector)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := func(srv *httptest.Server) string {
		_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
		require.NoError(t, err)
		return port
	}
	t.Setenv("COLLECTOR_URL", "http://127.0.0.1:1") // --config takes precedence
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(key, keyOf(t, secure), 0o600))
	tls := "\ntls: {certFile: cert.pem, keyFile: key.pem}"
	for _, c := range []struct {
		name, config string
		code         int
		want         string
	}{
		{"loopback", "listen: 127.0.0.1:" + port(plain), 0, "ready\n"},
		{"every address", "listen: :" + port(plain), 0, "ready\n"},
		{"every address of IPv4", "listen: 0.0.0.0:" + port(plain), 0, "ready\n"},
		{"TLS", "listen: 127.0.0.1:" + port(secure) + tls, 0, "ready\n"},
		{"a file that is wrong", "listen: 7", 1, `listen is "7": use host:port`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, "collector.yaml")
			text := c.config + "\ndata: data\nadmin: {token: 3f1c9a4b7d2e8f60}\n"
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			out, errOut, code := run(t, "health", "--timeout", "1m", "--config", path)
			assert.Equal(t, c.code, code)
			assert.Contains(t, out+errOut, c.want)
		})
	}
	_, errOut, code := run(t, "health", "--config", filepath.Join(dir, "nowhere"))
	assert.Equal(t, 1, code)
	assert.Contains(t, errOut, "--config: open ")
}

// TestDevInAContainer checks the flags that containers use to set the token and to allow their
// networks.
func TestDevInAContainer(t *testing.T) {
	t.Setenv("COLLECTOR_TOKEN", "a-token-of-mine")
	ctx, cancel := context.WithCancel(t.Context())
	out := &watchedBuffer{said: make(chan struct{})}
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"dev", "--listen", ":0", "--data", t.TempDir(), "--allow", "172.16.0.0/12"}, nil, out, io.Discard)
	}()
	select {
	case <-out.said:
	case code := <-ended:
		t.Fatalf("it ended with %d: %s", code, out)
	case <-time.After(time.Minute):
		t.Fatal("it has not started")
	}
	assert.Contains(t, out.String(), "Admin token    a-token-of-mine\n")
	base := between(t, out.String(), "Send calls to  ", "  (any")
	for token, want := range map[string]int{"a-token-of-mine": 200, "another": 401} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/messages", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, want, res.StatusCode)
	}
	cancel()
	assert.Zero(t, <-ended)
}

func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, before)
	require.True(t, found, text)
	rest, _, _ = strings.Cut(rest, after)
	return rest
}

func keyOf(t *testing.T, srv *httptest.Server) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
