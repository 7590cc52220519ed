package service

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// get sends a GET request and returns the status and body of the response.
func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

// send sends a batch of n calls and reports whether it was accepted.
func send(url, key, prefix string, n int) bool { return sendAgain(url, key, prefix, n, 0) }

// sendAgain sends a batch with a retry count.
func sendAgain(url, key, prefix string, n, retries int) bool {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"E","userId":"u","messageId":"%s-%d"}`, prefix, i))
	}
	req, err := http.NewRequest(http.MethodPost, url+"/v1/batch", strings.NewReader(`{"batch":[`+strings.Join(calls, ",")+`]}`))
	if err != nil {
		return false
	}
	req.SetBasicAuth(key, "")
	req.Header.Set("X-Retry-Count", strconv.Itoa(retries))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// ledgersOf returns the ledgers of all destinations.
func ledgersOf(t *testing.T, s *Service) []tracking.Ledger {
	t.Helper()
	ledgers, err := s.collector.Ledger(t.Context())
	require.NoError(t, err)
	return ledgers
}

func waitLedgers(t *testing.T, s *Service, holds func([]tracking.Ledger) bool) {
	t.Helper()
	waitFor(t, func() bool { return holds(ledgersOf(t, s)) })
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

func TestAdminListenerRequiresToken(t *testing.T) {
	one := start(t, Options{Dev: true, Config: &config.Config{Listen: "127.0.0.1:0", Data: t.TempDir()}})
	two := start(t, Options{Config: &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(),
		Admin:   config.Admin{Listen: "127.0.0.1:0", Token: "let-me-in"},
		Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
	}})
	three := start(t, Options{Dev: true, Config: &config.Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Admin: config.Admin{Token: "let-me-in"}}})
	for _, c := range []struct {
		url, path, token string
		status           int
	}{
		{one.URL(), "/ready", "", 200},
		{one.URL(), "/api/v1/ledger", "", 200},
		{one.URL(), "/metrics", "", 200},
		{one.URL(), "/debug/pprof/cmdline", "", 200},
		{two.URL(), "/ready", "", 200},
		{two.URL(), "/api/v1/ledger", "let-me-in", 404},
		{two.URL(), "/metrics", "let-me-in", 404},
		{two.URL(), "/debug/pprof/cmdline", "let-me-in", 404},
		{two.AdminURL(), "/ready", "", 200},
		{two.AdminURL(), "/api/v1/ledger", "let-me-in", 200},
		{two.AdminURL(), "/metrics", "let-me-in", 200},
		{two.AdminURL(), "/debug/pprof/cmdline", "let-me-in", 200},
		{two.AdminURL(), "/api/v1/ledger", "", 401},
		{two.AdminURL(), "/metrics", "", 401},
		{two.AdminURL(), "/debug/pprof/cmdline", "wrong", 401},
		{two.AdminURL(), "/debug/vars", "let-me-in", 404},
		{one.URL(), "/", "", 200},
		{two.URL(), "/", "let-me-in", 404},
		{two.AdminURL(), "/destinations", "let-me-in", 200},
	} {
		status, _ := get(t, http.DefaultClient, c.url+c.path, c.token)
		assert.Equal(t, c.status, status, "%s with the token %q", c.path, c.token)
	}
	// The test endpoints exist only in development mode.
	for path, status := range map[string]int{"/messages": 200, "/good": 200, "/bad": 200, "/all": 200, "/reset": 405, "/expect": 405} {
		assert.Contains(t, admin.TestPaths, path)
		for url, want := range map[string]int{one.URL(): status, three.URL(): status, two.URL(): 404, two.AdminURL(): 404} {
			got, _ := get(t, http.DefaultClient, url+path, "let-me-in")
			assert.Equal(t, want, got, path)
		}
		got, _ := get(t, http.DefaultClient, three.URL()+path, "")
		assert.Equal(t, 401, got, "%s without a token", path)
	}
	assert.Len(t, admin.TestPaths, 6)
}

func TestEndpointOnAllAddressesHasTheHostOfThePage(t *testing.T) {
	s := start(t, Options{Config: &config.Config{Listen: ":0", Data: t.TempDir(), Admin: config.Admin{Listen: "127.0.0.1:0"}}})
	_, page := get(t, http.DefaultClient, s.AdminURL()+"/sources", "")
	assert.Contains(t, page, fmt.Sprintf("http://127.0.0.1:%d", s.main.socket.Addr().(*net.TCPAddr).Port))
}

func TestUnusableAdminListenerReleasesTheOther(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := socket.Addr().String()
	require.NoError(t, socket.Close())
	_, err = Start(t.Context(), Options{Log: discard(), Config: &config.Config{Listen: address, Data: t.TempDir(), Admin: config.Admin{Listen: address, Token: "let-me-in"}}})
	require.EqualError(t, err, "admin.listen "+address+": the address is in use: stop the other program, or choose another address")
	socket, err = net.Listen("tcp", address)
	require.NoError(t, err)
	require.NoError(t, socket.Close())
}

func TestHTTPSBehindProxies(t *testing.T) {
	elsewhere, here := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, test := range map[string]struct {
		admin config.Admin
		want  string
	}{
		"no proxy is named":               {config.Admin{}, "https"},
		"the proxy is named":              {config.Admin{Proxies: here}, "https"},
		"another proxy is named":          {config.Admin{Proxies: elsewhere}, "http"},
		"it is before the other listener": {config.Admin{Proxies: elsewhere, Listen: "127.0.0.1:0"}, "https"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{Config: &config.Config{
				Listen: "127.0.0.1:0", Data: t.TempDir(), Admin: test.admin, Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
				HTTPConfig: config.JSONObject(`{"backoffConfig":{}}`),
			}})
			read := func(path string) string {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
				require.NoError(t, err)
				req.Header.Set("X-Forwarded-Proto", "https")
				res, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				return string(text)
			}
			text := read("/v1/projects/web-key/settings")
			assert.Contains(t, text, `"protocol":"`+test.want+`"`)
			assert.Contains(t, text, `"httpConfig":{"backoffConfig":{}}`)
			if test.admin.Listen == "" {
				assert.Contains(t, read("/sources"), "<code>"+test.want+"://127.0.0.1:")
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	var refuse atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refuse.Load() {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(receiver.Close)
	filtered := hook("hook", receiver.URL)
	filtered.Types.Deny = []string{"page"}
	s := start(t, Options{Config: &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Limits: config.Limits{Queue: 1e9},
		Sources:      []config.Source{{Name: "web", WriteKey: "web-key"}},
		Egress:       config.Egress{Allow: loopback()},
		Destinations: []config.Destination{filtered},
	}})
	settled := func(n int64) {
		waitLedgers(t, s, func(ledgers []tracking.Ledger) bool { return ledgers[0].Accepted == n && ledgers[0].Pending == 0 })
	}
	require.True(t, send(s.URL(), "web-key", "a", 3))
	require.True(t, sendAgain(s.URL(), "web-key", "a", 3, 1))
	settled(3)
	refuse.Store(true)
	require.True(t, send(s.URL(), "web-key", "b", 2))
	settled(5)
	res, err := http.Post(s.URL()+"/v1/page", "application/json", strings.NewReader(`{"writeKey":"web-key","userId":"u"}`))
	require.NoError(t, err)
	res.Body.Close()
	settled(6)
	assert.False(t, send(s.URL(), "wrong", "c", 1))
	res, err = http.Post(s.URL()+"/v1/track", "application/json", strings.NewReader(`{"writeKey":"web-key","userId":"u"}`))
	require.NoError(t, err)
	res.Body.Close()
	require.NoError(t, s.collector.Pause(t.Context(), "hook"))
	require.True(t, send(s.URL(), "web-key", "d", 1))

	require.EventuallyWithT(t, func(c *assert.CollectT) { // the metric is updated after the ledger
		_, text := get(t, http.DefaultClient, s.AdminURL()+"/metrics", "")
		for _, want := range []string{
			`collector_calls_accepted_total{source="web"} 7`,
			`collector_calls_repeated_total{source="web"} 3`,
			`collector_calls_retried_total{source="web"} 3`,
			`collector_calls_rejected_total{code="event_not_defined"} 1`,
			`collector_requests_refused_total{code="unknown_write_key"} 1`,
			`collector_attempts_total{destination="hook",reason="",verdict="success"} 3`,
			`collector_attempts_total{destination="hook",reason="status",verdict="permanent"} 2`,
			`collector_deliveries_total{destination="hook",result="delivered"} 3`,
			`collector_deliveries_total{destination="hook",result="failed"} 2`,
			`collector_calls_filtered_total{destination="hook",reason="its type is in types.deny"} 1`,
			`collector_attempt_duration_seconds_count{destination="hook"} 5`,
			`collector_delivery_latency_seconds_count{destination="hook"} 3`,
			`collector_ledger_calls{destination="hook",state="accepted"} 7`,
			`collector_ledger_calls{destination="hook",state="pending"} 1`,
			`collector_destination_paused{destination="hook"} 1`,
			`collector_destination_down{destination="hook"} 0`,
			`collector_destination_held{destination="hook"} 0`,
			`collector_destination_gone{destination="hook"} 0`,
			`collector_queue_limit_bytes 1e+09`,
			`collector_ready 1`,
			`collector_attempt_records_dropped_total 0`,
			`collector_build_info{version="test"} 1`,
			`collector_oldest_pending_seconds{destination="hook"} `,
		} {
			assert.Contains(c, text, want)
		}
		assert.NotContains(c, text, "collector_queue_bytes 0\n")
		if runtime.GOOS == "linux" {
			assert.Regexp(c, `(?m)^collector_disk_free_bytes [1-9]`, text)
			assert.Regexp(c, `(?m)^collector_disk_size_bytes [1-9]`, text)
		}
	}, 3*time.Minute, 5*time.Millisecond)
}

// TestFullQueueResponseIsTheSameInMemory checks that tests with the in-memory queue see the same
// response as in production.
func TestFullQueueResponseIsTheSameInMemory(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(receiver.Close)
	durable := start(t, Options{Config: &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Limits: config.Limits{Queue: 1 << 20},
		Sources: []config.Source{{Name: "web", WriteKey: "web-key"}}, Egress: config.Egress{Allow: loopback()},
		Destinations: []config.Destination{hook("hook", receiver.URL)},
	}})
	collector, err := engine.New(engine.Config{
		Sender:  webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}},
		Journal: journal.NewMemory(1 << 20), Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: durable.options.Config.Settings().Destinations,
	})
	require.NoError(t, err)
	defer collector.Close()
	memory := httptest.NewServer(collector)
	defer memory.Close()
	for name, url := range map[string]string{"durable": durable.URL(), "memory": memory.URL} {
		t.Run(name, func(t *testing.T) {
			var res *http.Response
			var body []byte
			for i := 0; i < 100 && (res == nil || res.StatusCode == http.StatusOK); i++ {
				noise := make([]byte, 15<<10)
				_, _ = rand.Read(noise)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track", strings.NewReader(
					fmt.Sprintf(`{"event":"E","userId":"u","messageId":"m-%d","properties":{"pad":"%x"}}`, i, noise)))
				require.NoError(t, err)
				req.SetBasicAuth("web-key", "")
				res, err = http.DefaultClient.Do(req)
				require.NoError(t, err)
				body, err = io.ReadAll(res.Body)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
			}
			assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
			assert.Equal(t, "5", res.Header.Get("Retry-After"))
			assert.JSONEq(t, `{"success":false,"code":"queue_full","message":"the queue is full; send again later","error":"the queue is full; send again later"}`, string(body))
		})
	}
}

func TestReloadLosesNoCall(t *testing.T) {
	t.Setenv("GOGC", "") // .ci/run sets GOGC; without it, the service calls saveMemory, as in production
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var got sync.Map
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got.Store(r.URL.Path+r.Header.Get("X-Message-Id"), true)
	}))
	t.Cleanup(receiver.Close)
	path := filepath.Join(t.TempDir(), "collector.yaml")
	writeGeneration(t, path, receiver.URL, 0)
	c, err := config.Load(path)
	require.NoError(t, err)
	s := start(t, Options{Config: c})
	ctx, cancel := context.WithCancel(t.Context())
	again := make(chan os.Signal)
	var following sync.WaitGroup
	following.Go(func() { assert.NoError(t, s.Follow(ctx, path, again)) })
	defer following.Wait()
	defer cancel()

	var accepted atomic.Int64
	stop := sendOn(s.URL(), &accepted)
	for generation := 1; generation <= 4; generation++ {
		writeGeneration(t, path, receiver.URL, generation)
		if generation%2 == 0 {
			again <- syscall.SIGHUP
		}
		waitFor(t, func() bool {
			sources := s.collector.Settings().Sources
			return sources[len(sources)-1].Name == fmt.Sprintf("source-%d", generation)
		})
		assert.True(t, send(s.URL(), fmt.Sprintf("key-%d", generation), fmt.Sprintf("g%d", generation), 1))
		accepted.Add(1)
	}
	require.NoError(t, os.WriteFile(path, []byte("sources: nonsense"), 0o600))
	again <- syscall.SIGHUP
	again <- syscall.SIGHUP // sent when the first reload is done
	assert.Len(t, s.collector.Settings().Sources, 2, "what was stays")
	stop()

	waitFor(t, func() bool {
		n := int64(0)
		got.Range(func(key, _ any) bool {
			if strings.HasPrefix(key.(string), "/stays/") {
				n++
			}
			return true
		})
		return n == accepted.Load()
	})
	ledgers := ledgersOf(t, s)
	for _, l := range ledgers {
		assert.True(t, l.Holds(), "%+v", l)
	}
	assert.Len(t, ledgers, 2)
}

// writeGeneration replaces a configuration atomically, in the same way as editors and
// Kubernetes. The new configuration has a different source, destination and header.
func writeGeneration(t *testing.T, path, receiver string, generation int) {
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
data: data
egress: {allow: [127.0.0.0/8]}
sources: [{name: web, writeKey: web-key}, {name: source-%d, writeKey: key-%d}]
destinations:
  - {name: stays, webhooks: [{url: %q, headers: {X-Generation: "%d"}}]}
  - {name: d%d, webhooks: [{url: %q}]}
`, generation, generation, receiver+"/stays/", generation, generation, receiver+"/other/")
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// sendOn starts two senders, which count accepted calls until stop is called.
func sendOn(url string, accepted *atomic.Int64) (stop func()) {
	var senders sync.WaitGroup
	done := make(chan struct{})
	for n := range 2 {
		senders.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if send(url, "web-key", fmt.Sprintf("%d-%d", n, i), 5) {
					accepted.Add(5)
				}
			}
		})
	}
	return func() {
		close(done)
		senders.Wait()
	}
}

// TestReloadOfReferencedFiles replaces files in the same way as Kubernetes. The configuration is
// a link, and its secrets are in a directory that is replaced as a whole. A file next to them
// changes continuously.
func TestReloadOfReferencedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	link := func(to, name string) {
		t.Helper()
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name+".new")))
		require.NoError(t, os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)))
	}
	yaml := func(source string) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
data: data
tls: {certFile: certs/cert.pem, keyFile: certs/key.pem}
admin: {tokenFile: secrets/token}
sources: [{name: %s, writeKey: "${file:secrets/key}"}]`, source)
	}
	for version, text := range map[string]string{"1": "old", "2": "new"} {
		write("secrets/.."+version+"/token", text+"-token\n")
		write("secrets/.."+version+"/key", text+"-key\n")
	}
	link("..1", "secrets/..data")
	link("..data/token", "secrets/token")
	link("..data/key", "secrets/key")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "certs"), 0o700))
	writeCertificate(t, filepath.Join(dir, "certs"), 1)
	write("elsewhere/collector.yaml", yaml("web"))
	link("elsewhere/collector.yaml", "collector.yaml")

	path := filepath.Join(dir, "collector.yaml")
	c, err := config.Load(path)
	require.NoError(t, err)
	var log watchedLog
	s, err := Start(t.Context(), Options{Config: c, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.shutdown()) })
	ctx, cancel := context.WithCancel(t.Context())
	var going sync.WaitGroup
	defer going.Wait()
	defer cancel()
	going.Go(func() { assert.NoError(t, s.Follow(ctx, path, nil)) })
	going.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(debounce / 5) {
			_ = os.WriteFile(filepath.Join(dir, "secrets", "busy"), []byte(time.Now().String()), 0o600)
		}
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // any certificate will do
	t.Cleanup(client.CloseIdleConnections)

	link("..2", "secrets/..data")
	waitFor(t, func() bool {
		status, _ := get(t, client, s.AdminURL()+"/api/v1/ledger", "new-token")
		return status == 200
	})
	assert.Equal(t, "new-key", s.collector.Settings().Sources[0].WriteKey)
	write("elsewhere/collector.yaml", yaml("app"))
	waitFor(t, func() bool { return s.collector.Settings().Sources[0].Name == "app" })
	writeCertificate(t, filepath.Join(dir, "certs"), 2)
	waitFor(t, func() bool { return serial(t, s) == 2 })

	require.NoError(t, os.Mkdir(filepath.Join(dir, "later"), 0o700))
	write("elsewhere/collector.yaml", strings.Replace(yaml("web"), "secrets/key", "later/key", 1))
	log.await(t, "the changed configuration is invalid")
	write("later/key", "latest-key")
	waitFor(t, func() bool { return s.collector.Settings().Sources[0].WriteKey == "latest-key" })
}

func TestReloadWarnsAboutReadableSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	secret := write("secret", "a-long-secret")
	path := write("collector.yaml", `
listen: 127.0.0.1:0
data: data
sources: [{name: web, writeKey: web-key}]
destinations: [{name: crm, sharedSecret: "${file:secret}", webhooks: [{url: "https://example.com/"}]}]`)
	c, err := config.Load(path)
	require.NoError(t, err)
	require.Empty(t, c.Warnings())
	var log watchedLog
	s, err := Start(t.Context(), Options{Config: c, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.shutdown()) })
	ctx, cancel := context.WithCancel(t.Context())
	again := make(chan os.Signal)
	var following sync.WaitGroup
	following.Go(func() { assert.NoError(t, s.Follow(ctx, path, again)) })
	defer following.Wait()
	defer cancel()

	require.NoError(t, os.Chmod(secret, 0o644)) //nolint:gosec // the reload logs a warning
	again <- syscall.SIGHUP
	log.await(t, "level=INFO msg=\"reloaded the configuration\"")
	log.mu.Lock()
	defer log.mu.Unlock()
	assert.Regexp(t, "level=WARN msg=.*destinations\\[0\\].sharedSecret.*chmod o-r "+regexp.QuoteMeta(secret), log.text.String())
}

// A watchedLog is a log buffer that signals new entries.
type watchedLog struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *watchedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *watchedLog) await(t *testing.T, text string) {
	t.Helper()
	waitFor(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.text.String(), text)
	})
}

func TestReloadReportsSettingsThatRequireARestart(t *testing.T) {
	before := &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Log: config.Log{Level: "info"},
		Admin: config.Admin{Token: "old"},
	}
	level := new(slog.LevelVar)
	s := start(t, Options{Config: before, Level: level})
	after := *before
	after.Listen, after.Data, after.Strict = "127.0.0.1:1", "elsewhere", true
	after.RedactKey = "a new key of 16 bytes"
	after.Limits.CallBytes = 5
	after.Log.Level = "debug"
	after.Admin.Token = "new"
	restart, err := s.Reload(t.Context(), &after)
	require.NoError(t, err)
	assert.Equal(t, []string{"listen", "data", "strict", "redactKey", "limits"}, restart)
	assert.Equal(t, slog.LevelDebug, level.Level())
	status, _ := get(t, http.DefaultClient, s.AdminURL()+"/api/v1/ledger", "old")
	assert.Equal(t, 401, status)
	status, _ = get(t, http.DefaultClient, s.AdminURL()+"/api/v1/ledger", "new")
	assert.Equal(t, 200, status)
}

// TestReloadAppliesDespiteFailedRemoval checks that a configuration is in effect even if a removed destination
// still exists, and that the next reload removes the destination.
func TestReloadAppliesDespiteFailedRemoval(t *testing.T) {
	before := planned(t, "before")
	before.Listen = "127.0.0.1:0"
	before.Destinations = []config.Destination{hook("crm", "http://127.0.0.1:1/")}
	s := start(t, Options{Config: before})
	after := *planned(t, "after")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Reload(canceled, &after)
	require.ErrorIs(t, err, engine.ErrNotRemoved)
	call := tracking.Call{Source: "after", Type: "track", Event: "Paid", Body: []byte(`{"type":"track","event":"Paid","properties":{}}`)}
	assert.True(t, s.plans.Judge(&call, []byte(`{}`)).Reject)
	assert.Len(t, s.collector.Status(), 1)
	_, err = s.Reload(t.Context(), &after)
	require.NoError(t, err)
	assert.Empty(t, s.collector.Status())
}

func TestTLSCertificateIsReloaded(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, 1)
	c := &config.Config{
		Listen: "127.0.0.1:0", Data: filepath.Join(dir, "data"),
		TLS: config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")},
	}
	s := start(t, Options{Dev: true, Config: c})
	assert.EqualValues(t, 1, serial(t, s))
	writeCertificate(t, dir, 2)
	_, err := s.Reload(t.Context(), c)
	require.NoError(t, err)
	assert.EqualValues(t, 2, serial(t, s))

	pool := x509.NewCertPool()
	text, err := os.ReadFile(c.TLS.CertFile)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(text))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(client.CloseIdleConnections)
	status, _ := get(t, client, s.URL()+"/ready", "")
	assert.Equal(t, 200, status)
}

// serial returns the serial number of the certificate of a service.
func serial(t *testing.T, s *Service) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test checks the certificate
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// writeCertificate writes a certificate for 127.0.0.1 with a serial number.
func writeCertificate(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

func TestRemovedDestinationIsDeleted(t *testing.T) {
	dir := t.TempDir()
	run := func(log io.Writer, names ...string) *Service {
		c := &config.Config{Listen: "127.0.0.1:0", Data: dir, Sources: []config.Source{{Name: "web", WriteKey: "web-key"}}}
		for _, name := range names {
			c.Destinations = append(c.Destinations, hook(name, "http://127.0.0.1:1"))
		}
		s, err := Start(t.Context(), Options{Config: c, Log: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, err)
		return s
	}
	var log bytes.Buffer
	first := run(io.Discard, "stays", "goes while it runs", "goes")
	for _, name := range []string{"stays", "goes while it runs", "goes"} {
		require.NoError(t, first.collector.Pause(t.Context(), name))
	}
	require.True(t, send(first.URL(), "web-key", "a", 3))
	require.NoError(t, first.shutdown())

	second := run(&log, "stays", "goes while it runs")
	_, err := second.Reload(t.Context(), &config.Config{
		Sources:      second.options.Config.Sources,
		Destinations: second.options.Config.Destinations[:1],
	})
	require.NoError(t, err)
	require.True(t, send(second.URL(), "web-key", "b", 2))
	ledgers := ledgersOf(t, second)
	require.Len(t, ledgers, 1)
	assert.EqualValues(t, 5, ledgers[0].Pending)
	require.NoError(t, second.shutdown())
	assert.Contains(t, log.String(), `destination=goes pending=3 failed=0`)
	assert.Contains(t, log.String(), `destination="goes while it runs" pending=3 failed=0`)
}

// TestProbesDuringStart checks that the process is live but not ready while the cluster does not
// respond.
func TestProbesDuringStart(t *testing.T) {
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		c := &config.Config{Listen: address, NATS: &config.NATS{NATS: jetstream.NATS{URL: "nats://127.0.0.1:1"}}}
		_, err := Start(ctx, Options{Config: c, Log: discard()})
		ended <- err
	}()
	waitFor(t, func() bool {
		res, err := http.Get("http://" + address + "/health")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return assert.Equal(t, 200, res.StatusCode)
	})
	status, text := get(t, http.DefaultClient, "http://"+address+"/ready", "")
	assert.Equal(t, 503, status)
	assert.Contains(t, text, "is starting")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	_, err = http.Get("http://" + address + "/health")
	assert.Error(t, err, "it listens no longer")
}

func TestRequestsWaitUntilTheQueueIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newStartupGate()
		answers := make(chan *httptest.ResponseRecorder, 2)
		ask := func() {
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/track", nil))
			answers <- w
		}
		go ask()
		time.Sleep(startupTimeout)
		refused := <-answers
		assert.Equal(t, 503, refused.Code)
		assert.Equal(t, "5", refused.Header().Get("Retry-After"))
		assert.JSONEq(t, `{"success":false,"code":"unavailable","message":"the collector is starting; retry later","error":"the collector is starting; retry later"}`, refused.Body.String())
		go ask()
		synctest.Wait()
		d.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		assert.Equal(t, http.StatusTeapot, (<-answers).Code)
	})
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{Dev: true, Config: &config.Config{Listen: "127.0.0.1:0", Data: dir}})
	_, err := Start(t.Context(), Options{Dev: true, Log: discard(), Config: &config.Config{Listen: "127.0.0.1:0", Data: dir}})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "is locked by process")
}

func TestGracefulShutdown(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	var answered atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
		answered.Add(1)
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	c := &config.Config{
		Listen: "127.0.0.1:0", Data: dir, Limits: config.Limits{Concurrency: 2},
		Destinations: []config.Destination{hook("hook", receiver.URL)},
	}
	var log bytes.Buffer
	s, err := Start(t.Context(), Options{Dev: true, Config: c, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.True(t, send(s.URL(), "key", "m", 5))
	<-arrived
	<-arrived
	page, err := http.Get(s.URL() + "/stream") // an open stream must not delay the shutdown
	require.NoError(t, err)
	t.Cleanup(func() { page.Body.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	cancel()
	waitFor(t, func() bool { // the service stops listening when it starts no further attempts
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	require.Error(t, s.collector.Ready(t.Context()))
	close(answer)
	require.NoError(t, <-ended)
	assert.EqualValues(t, 2, answered.Load())
	assert.Contains(t, log.String(), "msg=stopped")

	go func() {
		for range arrived { // the other calls arrive after the restart
		}
	}()
	again := start(t, Options{Dev: true, Config: c})
	waitLedgers(t, again, func(ledgers []tracking.Ledger) bool { return len(ledgers) == 1 && ledgers[0].Delivered == 5 })
	assert.EqualValues(t, 5, answered.Load())
}

// TestShutdownTimeout checks that a blocked step does not prevent the shutdown from finishing
// before the process is killed.
func TestShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), endTimeout)
		defer cancel()
		hangs := make(chan struct{})
		assert.ErrorIs(t, within(ctx, func() error { <-hangs; return nil }), context.DeadlineExceeded)
		close(hangs)
		assert.ErrorIs(t, within(t.Context(), func() error { return io.EOF }), io.EOF)
	})
	for file, setting := range map[string]string{
		"packages/collector.service":         "TimeoutStopSec=",
		"compose.yaml":                       "stop_grace_period: ",
		"kubernetes/single/statefulset.yaml": "terminationGracePeriodSeconds: ",
		"kubernetes/cluster/deployment.yaml": "terminationGracePeriodSeconds: ",
	} {
		text, err := os.ReadFile("../../../../deploy/" + file)
		require.NoError(t, err)
		_, after, _ := strings.Cut(string(text), setting)
		var seconds int
		_, err = fmt.Sscan(after, &seconds)
		require.NoError(t, err, file)
		assert.Greater(t, time.Duration(seconds)*time.Second, endTimeout, file)
	}
}
