package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// write writes a file to a new working directory. The output therefore contains no absolute path.
func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestExpect(t *testing.T) {
	srv := server(t)
	testdata, err := filepath.Abs("testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"track", "--event", "Signed Up", "--user-id", "u1", "--message-id", "m1", "--properties", `{"plan":"Free","seats":3}`},
		{"track", "--event", "Order Completed", "--user-id", "u1", "--message-id", "m2", "--properties", `{"total":"25.5","note":"\u001b[31m"}`},
		{"page", "--name", "Home", "--anonymous-id", "a1", "--message-id", "m3"},
	} {
		_, errOut, code := run(t, append([]string{"send"}, args...)...)
		require.Zero(t, code, errOut)
	}
	for _, c := range []struct {
		name, file string
		args       []string
		code       int
	}{
		{"holds", "expect:\n  - type: track\n    event: Signed Up\n    properties: {seats: {$min: 1}}\n  - event: Order Completed\n    count: 1\n", nil, 0},
		{"json", `{"expect":[{"type":"page","name":"Home"}]}`, []string{"--json"}, 0},
		{"differs", "# what the shop sends\nwithin: 1ms\nexpect:\n  - type: page\n  - event: Signed Up\n    properties:\n      plan: Enterprise\n      coupon: {$type: string}\n  - event: Order Completed\n    properties: {total: {$min: 1}, note: {$absent: true}}\n", nil, 1},
		{"differs-json", "expect:\n  - event: Signed Up\n    userId: u2\n", []string{"--json", "--within", "1ms"}, 1},
		{"differs-yaml", "expect:\n  - event: Signed Up\n    userId: u2\n", []string{"-o", "yaml", "--within", "1ms"}, 1},
		{"differs-jsonl", "expect:\n  - event: Signed Up\n    userId: u2\n  - type: page\n", []string{"-o", "jsonl", "--within", "1ms"}, 1},
		{"within", "within: 4m\nexpect: [{event: Nothing}]\n", []string{"--within", "1ms"}, 1},
		{"none", "expect:\n  - type: page\n    count: 0\n", nil, 1},
		{"mistakes", "within: soon\nexpects: 1\nexpect:\n  - evnt: A\n    properties:\n      plan: {$regexp: (}\n  - code: x\n", nil, 2},
		{"no-yaml", "expect:\n  - [", nil, 2},
		{"twice", "expect:\n  - event: A\n    event: B\n", nil, 2},
		{"empty", "", nil, 2},
		{"long", "expect: [{}]", []string{"--within", "1h"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, "expectations.yaml", c.file)
			out, errOut, code := run(t, append([]string{"expect", "--file", "expectations.yaml"}, c.args...)...)
			assert.Equal(t, c.code, code, errOut)
			assert.NotContains(t, out, "\x1b", "what senders chose must not steer the terminal")
			golden(t, filepath.Join(testdata, "expect-"+c.name), out+errOut)
		})
	}
	require.Len(t, srv.Calls(), 3)
}

// TestExpectErrors checks that errors are not mistaken for failed expectations.
func TestExpectErrors(t *testing.T) {
	collector, err := engine.New(engine.Config{AnyWriteKey: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = collector.Close() })
	production := httptest.NewServer(collector)
	t.Cleanup(production.Close)
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ok":true}`)) }))
	t.Cleanup(liar.Close)
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"code":"x","message":"no"}`))
	}))
	t.Cleanup(locked.Close)
	t.Setenv("COLLECTOR_TOKEN", "")
	t.Chdir(t.TempDir())
	write(t, "e.yaml", "expect: [{event: A}]")
	for _, c := range []struct {
		name, args string
		code       int
		want       string
	}{
		{"no file", "expect", 2, "--file is not set: see collector expect --help"},
		{"a file that is not there", "expect --file nowhere.yaml", 2, "--file: open nowhere.yaml: no such file or directory"},
		{"no tests there", "expect --file e.yaml --url " + production.URL, 1, production.URL + " has no /expect: use a collector that was started with collector dev"},
		{"no collector", "expect --file e.yaml --url " + liar.URL, 1, "the response (200 OK) is not from a collector: check --url"},
		{"no token", "expect --file e.yaml --url " + locked.URL, 1, "the collector requires its admin token: set --token-file or COLLECTOR_TOKEN"},
		{"an argument", "expect e.yaml", 2, `unexpected argument "e.yaml": see collector expect --help`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errOut, code := run(t, strings.Fields(c.args)...)
			assert.Equal(t, c.code, code)
			assert.Empty(t, out)
			assert.Equal(t, "collector: "+c.want+"\n", errOut)
		})
	}
}
