package mockserver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// clients is the directory of the npm client libraries.
const clients = "testdata/clients"

// installing is locked while needClients installs the libraries, because tests run in parallel.
var installing sync.Mutex

// needClients skips the test if the client libraries are not installed. With
// REQUIRE_NODE=1 it installs them, and fails if it cannot.
func needClients(t *testing.T) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	required := os.Getenv("REQUIRE_NODE") == "1"
	missing := func(format string, args ...any) {
		t.Helper()
		if required {
			t.Fatalf(format, args...)
		}
		t.Skipf(format, args...)
	}
	if _, err := exec.LookPath("node"); err != nil {
		missing("node is not installed: %v", err)
	}
	lock, err := os.Stat(filepath.Join(clients, "package-lock.json"))
	require.NoError(t, err)
	installed, err := os.Stat(filepath.Join(clients, "node_modules", ".package-lock.json"))
	if err == nil && !installed.ModTime().Before(lock.ModTime()) {
		return
	}
	if !required {
		t.Skipf("the client libraries are not installed: run npm install in mockserver/%s, or set REQUIRE_NODE=1", clients)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	locked, err := os.ReadFile(filepath.Join(clients, "package-lock.json"))
	require.NoError(t, err)
	// npm ci refuses a lock file without package URLs if the file contains packages for
	// other platforms.
	install := exec.CommandContext(ctx, "npm", "install", "--no-save", "--fetch-retries=5")
	install.Dir = clients
	if out, err := install.CombinedOutput(); err != nil {
		missing("npm install: %v\n%s", err, out)
	}
	after, err := os.ReadFile(filepath.Join(clients, "package-lock.json"))
	require.NoError(t, err)
	require.Equal(t, string(locked), string(after), "npm changed package-lock.json")
	now := time.Now()
	require.NoError(t, os.Chtimes(filepath.Join(clients, "node_modules", ".package-lock.json"), now, now))
}

// clientLibraries are the names of the libraries in send.js.
var clientLibraries = []string{"analytics-node-next", "analytics-node", "rudder", "browser", "browser-batching"}

// runLibrary sends one call of each type with a library and the write key "key-of-the-shop".
func runLibrary(t *testing.T, library, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "send.js", library, url, "key-of-the-shop")
	node.Dir = clients
	out, err := node.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Real client libraries send one call of each type, and a webhook receives them.
func TestClientLibraries(t *testing.T) {
	t.Parallel()
	needClients(t)
	for _, library := range clientLibraries {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			rec := newReceiver(t, nil)
			d := hook("hook", rec.URL)
			d.SharedSecret = "s3cret"
			srv := mockserver.RunT(t, mockserver.Config{
				Strict:       true, // makes the library report rejected calls
				Sources:      []tracking.Source{{Name: "shop", WriteKey: "key-of-the-shop"}},
				Destinations: []tracking.Destination{d},
			})
			runLibrary(t, library, srv.URL)

			_, err := srv.Wait(within(t), 6, mockserver.DeliveredTo("hook"))
			require.NoError(t, err)
			assert.Len(t, srv.Calls(), 6)
			assert.Empty(t, srv.Engine().History().Refusals())
			for typ, like := range map[string]string{
				"identify": `{"userId":"u1","traits":{"email":"ada@example.com","age":36}}`,
				"track": `{"userId":"u1","event":"Order Completed","properties":{"plan":"Pro","first name":"Ada","price":19.99,
					"tags":["a","b"],"nothing":null,"note":"ünïcødé \u2028 <&>"}}`,
				"page":   `{"userId":"u1","category":"Shop","name":"Cart"}`,
				"screen": `{"name":"Home","properties":{"tab":1}}`,
				"group":  `{"userId":"u1","groupId":"g1","traits":{"name":"Acme"}}`,
				"alias":  `{"userId":"u1","previousId":"a1"}`,
			} {
				call := srv.Expect(t, mockserver.OfType(typ), mockserver.Like(like)).Call
				assert.Equal(t, "shop", call.Source)
				assert.NotContains(t, call.ID, "collector-", "the library's own messageId")
				assert.False(t, call.SentAt.IsZero(), "the library's clock when it sent")
				assert.False(t, call.OriginalTimestamp.IsZero())
				assert.WithinDuration(t, time.Now(), call.SentAt, time.Minute)
				assert.NotContains(t, string(call.Body), "key-of-the-shop")
				assert.NotEmpty(t, call.Context()["library"])
			}
			bodies, heads := rec.got()
			assert.Len(t, bodies, 6)
			for i, body := range bodies {
				require.NoError(t, webhook.Verify("s3cret", []byte(body), heads[i].Get(webhook.SignatureHeader)))
			}
		})
	}
}
