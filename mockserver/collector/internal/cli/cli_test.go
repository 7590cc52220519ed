package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var update = flag.Bool("update", false, "write the golden files")

// run runs the command and returns its output and exit code.
func run(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), args, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), code
}

// changing are the parts of the output that differ between runs.
var changing = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d+`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`cli-[a-z0-9]{26}`), "cli-ID"},
	{regexp.MustCompile(`delete-[a-z2-7]{16}-[a-z2-7]{16}`), "delete-ID"},
	{regexp.MustCompile(`\d+\.\d ms`), "N ms"},
	{regexp.MustCompile(`"durationMs": [\d.]+`), `"durationMs": N`},
	{regexp.MustCompile(`(\d+h)?(\d+m)?\d+s ago`), "AGE ago"},
	{regexp.MustCompile(`contains \d+ bytes`), "contains N bytes"},
	{regexp.MustCompile(`"bytes": \d+`), `"bytes": N`},
	{regexp.MustCompile(`"Date": \[\s+"[^"]+"`), `"Date": ["DATE"`},
	{regexp.MustCompile(`after [\d.]+m?s\b`), "after N s"},
	{regexp.MustCompile(`(waitedMs"?): \d+`), "$1: N"},
	{regexp.MustCompile(`\b(AT|RECEIVED|REQUESTED) ([A-Z]+|[+-]\d+)  `), "$1 ZONE  "},
	{regexp.MustCompile(` {2,}`), "  "}, // column widths vary
}

// golden compares output with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, c := range changing {
		got = c.what.ReplaceAllString(got, c.name)
	}
	path := name + ".txt"
	if !filepath.IsAbs(path) {
		path = filepath.Join("testdata", path)
	}
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "go test ./internal/cli -update writes it anew")
}

// TestInterruptWhileReadingInput checks that the first interrupt ends a command that waits for input.
func TestInterruptWhileReadingInput(t *testing.T) {
	for args, want := range map[string]string{
		"expect --file -":      "collector: --file: canceled\n",
		"delete-user --file -": "collector: --file -: canceled\n",
		"plan infer":           "collector: standard input: canceled\n",
	} {
		t.Run(args, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			defer close(ended)
			terminal := readerFunc(func([]byte) (int, error) {
				cancel()
				<-ended
				return 0, io.EOF
			})
			var errOut strings.Builder
			code := Main(ctx, strings.Fields(args), terminal, io.Discard, &errOut)
			assert.Equal(t, 1, code)
			assert.Equal(t, want, errOut.String())
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestHelp(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // HOME may be unset
	for _, args := range [][]string{
		{}, {"dev"}, {"serve"}, {"check"}, {"send"}, {"send", "track"}, {"expect"}, {"baseline"}, {"baseline", "record"}, {"baseline", "check"}, {"calls"}, {"mcp"}, {"open"}, {"version"}, {"destinations"}, {"destinations", "list"}, {"destinations", "add"}, {"destinations", "test"}, {"destinations", "remove"}, {"status"}, {"health"}, {"verify"}, {"replay"}, {"pause"}, {"resume"},
		{"delete-user"}, {"deletions"}, {"audience"}, {"audience", "sync"}, {"audience", "list"}, {"audience", "forget"}, {"trait"}, {"trait", "sync"},
		{"plan"}, {"plan", "check"}, {"plan", "infer"}, {"plan", "diff"}, {"plan", "gen"},
	} {
		out, errOut, code := run(t, append(args, "--help")...)
		assert.Empty(t, errOut)
		assert.Zero(t, code)
		if len(args) == 1 && args[0] == "dev" {
			out = strings.ReplaceAll(out, defaultData(), "DATA")
		}
		golden(t, "help-"+strings.Join(append(args, "collector"), "-"), out)
	}
}

// server runs a collector with fixed IDs and two destinations. One destination accepts calls, and
// the other one rejects them permanently.
func server(t *testing.T) *mockserver.Server {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		if strings.HasPrefix(r.URL.Path, "/gone") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "gone\x1b[2J for good")
		}
	}))
	t.Cleanup(receiver.Close)
	to := func(path string) webhook.Settings {
		return webhook.Settings{Webhooks: []webhook.Endpoint{{URL: receiver.URL + path}}}
	}
	srv := mockserver.RunT(t, mockserver.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{
			{Name: "crm", Settings: to("/crm")}, {Name: "gone", Settings: to("/gone")},
			{Name: "other", Sources: []string{"app"}, Settings: to("/other")},
		},
	})
	t.Setenv("COLLECTOR_URL", srv.URL)
	t.Setenv("COLLECTOR_WRITE_KEY", "web-key")
	t.Setenv("COLLECTOR_TOKEN", "")
	return srv
}

func TestCommandsOnARunningCollector(t *testing.T) {
	srv := server(t)
	properties := filepath.Join(t.TempDir(), "properties.json")
	require.NoError(t, os.WriteFile(properties, []byte(`{"seats":12345678901234567890}`), 0o600))
	members, values := filepath.Join(t.TempDir(), "members.txt"), filepath.Join(t.TempDir(), "values.jsonl")
	require.NoError(t, os.WriteFile(members, []byte("\uFEFFu2\nu3\n"), 0o600))
	require.NoError(t, os.WriteFile(values, []byte(`{"userId":"u1","value":42}`), 0o600))
	key := filepath.Join(t.TempDir(), "key.txt")
	require.NoError(t, os.WriteFile(key, []byte("the-key-of-the-relay\n"), 0o600))
	for _, step := range []struct {
		name string
		args []string
		code int
	}{
		{"verify-empty", []string{"verify"}, 0},
		{"calls-empty", []string{"calls"}, 0},
		{"send-track", []string{"send", "track", "--event", "Signed Up", "--user-id", "u1", "--message-id", "m1", "--properties", "@" + properties, "--wait", "1m"}, 1},
		{"send-page", []string{"send", "page", "--name", "Pricing\x1b[31m", "--anonymous-id", "a1", "--message-id", "m2", "--context", `{"ip":"1.2.3.4"}`, "--wait", "1m", "--json"}, 1},
		{"send-identify", []string{"send", "identify", "--user-id", "u2", "--traits", `{"plan":"Pro"}`}, 0},
		{"send-group-json", []string{"send", "group", "--user-id", "u2", "--group-id", "g", "--json"}, 0},
		{"send-alias", []string{"send", "alias", "--user-id", "u2", "--previous-id", "u1", "--wait", "1m"}, 1},
		{"calls", []string{"calls", "--id", "m1", "--id", "m2"}, 0},
		{"calls-json", []string{"calls", "--id", "m1", "--json", "--state", "failed"}, 0},
		{"calls-one", []string{"calls", "m2"}, 0},
		{"calls-one-of-source", []string{"calls", "m2", "--source", "app"}, 1},
		{"calls-one-unknown-destination", []string{"calls", "m2", "--destination", "cmr"}, 1},
		{"calls-one-rejected", []string{"calls", "m2", "--state", "rejected"}, 0},
		{"calls-none", []string{"calls", "nonsense"}, 1},
		{"calls-no-event", []string{"calls", "--event", ""}, 2},
		{"calls-where", []string{"calls", "--where", "prop.seats:>=5"}, 0},
		{"calls-where-none", []string{"calls", "--where", "prop.seats:>=5", "--where", "traits.plan:Pro"}, 0},
		{"replay-where", []string{"replay", "gone", "--dry-run", "--where", "prop.seats:1"}, 0},
		{"bad-where", []string{"calls", "--where", "plan=Pro"}, 2},
		{"bad-where-sign", []string{"calls", "--where", "prop.plan=Pro"}, 2},
		{"bad-where-number", []string{"calls", "--where", "prop.seats:>many"}, 2},
		{"bad-where-value", []string{"calls", "--where", "prop.plan"}, 2},
		{"bad-type", []string{"calls", "--type", "trak"}, 2},
		{"bad-type-replay", []string{"replay", "gone", "--dry-run", "--type", "track", "--type", "trak"}, 2},
		{"calls-jsonl", []string{"calls", "--id", "m1", "-o", "jsonl"}, 0},
		{"calls-csv", []string{"calls", "--id", "m1", "--id", "m2", "--csv"}, 0},
		{"calls-csv-json", []string{"calls", "--csv", "--json"}, 2},
		{"calls-csv-one", []string{"calls", "m1", "--csv"}, 2},
		{"calls-csv-rejected", []string{"calls", "--state", "rejected", "--csv"}, 2},
		{"calls-csv-unknown-destination", []string{"calls", "--csv", "--destination", "nope"}, 1},
		{"bad-limit-jsonl", []string{"calls", "-o", "jsonl", "--limit", "-1"}, 2},
		{"calls-yaml", []string{"calls", "--id", "m1", "-o", "yaml"}, 0},
		{"calls-rejected-none", []string{"calls", "--state", "rejected", "--event", "x"}, 0},
		{"calls-rejected-destination", []string{"calls", "--state", "rejected", "--destination", "crm"}, 2},
		{"calls-follow-state", []string{"calls", "--follow", "--state", "failed"}, 2},
		{"calls-unknown-destination", []string{"calls", "--follow", "--destination", "nope"}, 1},
		{"calls-follow-yaml", []string{"calls", "--follow", "-o", "yaml"}, 2},
		{"calls-follow-yaml", []string{"calls", "m1", "--follow", "--state", "rejected", "-o", "yaml"}, 2},
		{"bad-output", []string{"calls", "-o", "xml"}, 2},
		{"destinations-list", []string{"destinations", "list"}, 0},
		{"destinations-list", []string{"destinations"}, 0},
		{"destinations-test", []string{"destinations", "test", "crm", "--type", "identify"}, 0},
		{"destinations-test-gone", []string{"destinations", "test", "gone"}, 1},
		{"destinations-test-unknown", []string{"destinations", "test", "nobody"}, 1},
		{"destinations-add", []string{"destinations", "add", "new one", "https://example.com/hook", "--header", "X-Team: growth", "--event", "Order *"}, 0},
		{"destinations-add-again", []string{"destinations", "add", "new one", "https://example.com/hook"}, 1},
		{"destinations-add-no-url", []string{"destinations", "add", "crm"}, 2},
		{"destinations-add-bad", []string{"destinations", "add", "bad", "ftp://example.com"}, 1},
		{"destinations-add-private", []string{"destinations", "add", "private", "http://10.0.0.1/hook"}, 1},
		{"destinations-remove-unsure", []string{"destinations", "remove", "new one"}, 2},
		{"destinations-remove", []string{"destinations", "remove", "new one", "--yes"}, 0},
		{"open-print", []string{"open", "--print"}, 0},
		{"open-call", []string{"open", "m1", "--print"}, 0},
		{"open-none", []string{"open", "nonsense"}, 1},
		{"status", []string{"status"}, 0},
		{"verify", []string{"verify"}, 0},
		{"verify-json", []string{"verify", "--json"}, 0},
		{"pause", []string{"pause", "crm"}, 0},
		{"resume", []string{"resume", "crm"}, 0},
		{"pause-unknown", []string{"pause", "nobody"}, 1},
		{"pause-nothing", []string{"pause"}, 2},
		{"replay-dry", []string{"replay", "gone", "--dry-run", "--type", "track", "--since", "1h"}, 0},
		{"replay", []string{"replay", "gone", "--id", "m1"}, 0},
		{"replay-wait", []string{"replay", "crm", "--id", "m1", "--state", "delivered", "--wait"}, 0},
		{"replay-wait-failed", []string{"replay", "gone", "--id", "m2", "--wait"}, 1},
		{"replay-unknown-ids", []string{"replay", "gone", "--id", "m2", "--id", "m8", "--id", "m9", "--wait"}, 1},
		{"replay-unknown-id-dry", []string{"replay", "crm", "--id", "m1", "--dry-run"}, 1},
		{"replay-neither", []string{"replay", "crm", "--dry-run", "--wait"}, 2},
		{"replay-json", []string{"replay", "crm", "--state", "delivered", "--text", "pricing", "--dry-run", "--json"}, 0},
		{"delete-user", []string{"delete-user", "u1", "--file", members, "--id", "gdpr-1", "--wait", "1m"}, 1},
		{"delete-user-again", []string{"delete-user", "u3", "u2", "u1", "--id", "gdpr-1"}, 0},
		{"delete-user-other", []string{"delete-user", "u3", "--id", "gdpr-1", "--wait", "1m"}, 1},
		{"delete-user-none", []string{"delete-user"}, 2},
		{"deletions", []string{"deletions"}, 0},
		{"deletions-one", []string{"deletions", "gdpr-1", "--state", "failed", "-n", "1"}, 0},
		{"deletions-json", []string{"deletions", "gdpr-1", "--user-id", "u2", "--json"}, 0},
		{"deletions-no-id", []string{"deletions", "--state", "failed"}, 2},
		{"deletions-unknown", []string{"deletions", "gdpr-2"}, 1},
		{"audience-empty", []string{"audience", "list"}, 0},
		{"audience-dry", []string{"audience", "sync", "Big Spenders", "--destination", "crm", "--dry-run", "--file", members}, 0},
		{"audience-sync", []string{"audience", "sync", "Big Spenders", "--destination", "crm", "--file", members}, 0},
		{"audience-sync-json", []string{"audience", "sync", "Big Spenders", "--destination", "crm", "--file", members, "--full", "--json"}, 0},
		{"audience-nobody", []string{"audience", "sync", "Big Spenders", "--destination", "crm"}, 1},
		{"audience-empty-list", []string{"audience", "sync", "Big Spenders", "--destination", "crm", "--allow-empty"}, 0},
		{"audience-which", []string{"audience", "sync", "Big Spenders", "--file", members}, 1},
		{"audience-no-name", []string{"audience", "sync", "--file", members}, 2},
		{"audience-no-file", []string{"audience", "sync", "x", "--file", "nowhere"}, 2},
		{"audience-list", []string{"audience", "list"}, 0},
		{"audience-list", []string{"audience"}, 0},
		{"trait-sync", []string{"trait", "sync", "Lifetime Value", "--destination", "crm", "--file", values}, 0},
		{"trait-bad", []string{"trait", "sync", "Lifetime Value", "--destination", "crm", "--file", members}, 1},
		{"trait-list", []string{"trait", "list"}, 0},
		{"trait-list", []string{"trait"}, 0},
		{"audience-forget", []string{"audience", "forget", "big_spenders"}, 0},
		{"trait-forget-json", []string{"trait", "forget", "Lifetime Value", "--json"}, 0},
		{"audience-forget-again", []string{"audience", "forget", "Big Spenders"}, 1},
		{"bad-json", []string{"send", "track", "--event", "E", "--user-id", "u", "--properties", "plan=Pro"}, 2},
		{"bad-time", []string{"calls", "--since", "yesterday"}, 2},
		{"bad-state", []string{"calls", "--state", "lost"}, 2},
		{"bad-limit", []string{"calls", "--follow", "--limit", "0"}, 2},
		{"bad-timestamp", []string{"send", "page", "--user-id", "u", "--timestamp", "yesterday"}, 2},
		{"empty-event", []string{"send", "track", "--user-id", "u", "--event", ""}, 2},
		{"no-event", []string{"send", "track", "--user-id", "u"}, 2},
		{"no-user", []string{"send", "page"}, 2},
		{"bad-url", []string{"status", "--url", "ftp://example.com:8765"}, 2},
		{"unknown-command", []string{"sned"}, 2},
		{"unknown-kind", []string{"send", "trak"}, 2},
		{"no-kind", []string{"send", "--event", "Signed Up", "--user-id", "u1"}, 2},
		{"no-kind-user", []string{"send", "--user-id", "u1"}, 2},
		{"url-without-scheme", []string{"open", "--print", "--url", strings.TrimPrefix(srv.URL, "http://")}, 0},
		{"destinations-add-without-scheme", []string{"destinations", "add", "local", "localhost:3000/hook", "-o", "json"}, 0},
		{"destinations-remove-local", []string{"destinations", "remove", "local", "--yes"}, 0},
		{"destinations-add-relay", []string{"destinations", "add", "relay", "127.0.0.1:1", "--write-key-file", key, "-o", "json"}, 0},
		{"destinations-relay", []string{"destinations"}, 0},
		{"destinations-add-relay-urls", []string{"destinations", "add", "relay", "a.example", "b.example", "--write-key-file", key}, 2},
		{"destinations-remove-relay", []string{"destinations", "remove", "relay", "--yes"}, 0},
		{"calls-prefix", []string{"calls", "--event", "Signed*"}, 0},
		{"calls-unknown-destination", []string{"calls", "--destination", "nope"}, 1},
		{"unknown-command-prefix", []string{"dest", "list"}, 2},
		{"unknown-command-other", []string{"deliveries"}, 2},
		{"unknown-command-in-group", []string{"plan", "chek"}, 2},
		{"unknown-flag-similar", []string{"calls", "--limt", "3"}, 2},
		{"unknown-flag-one-dash", []string{"status", "-url", "http://localhost:1"}, 2},
		{"unknown-flag-letter", []string{"plan", "infer", "-o", "json"}, 2},
		{"unknown-help", []string{"help", "sned"}, 2},
		{"unknown-help-in-group", []string{"help", "plan", "chek"}, 2},
		{"unknown-shell", []string{"completion", "bsh"}, 2},
		{"completion-argument", []string{"completion", "bash", "x"}, 2},
		{"bad-boolean", []string{"status", "--json=maybe"}, 2},
		{"destinations-add-relay-header", []string{"destinations", "add", "relay", "a.example", "--write-key-file", key, "--header", "A: b"}, 2},
		{"unknown-flag", []string{"calls", "--rate", "3"}, 2},
		{"bad-number", []string{"calls", "--limit", "abc"}, 2},
		{"bad-duration", []string{"send", "page", "--user-id", "u", "--wait", "soon"}, 2},
		{"no-value", []string{"check", "--config"}, 2},
		{"no-config", []string{"check"}, 2},
		{"extra-argument", []string{"serve", "collector.yaml"}, 2},
		{"alias-no-previous", []string{"send", "alias", "--user-id", "u"}, 2},
	} {
		if step.name == "calls" { // calls sent without --wait must also be complete
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := srv.Wait(ctx, 5, mockserver.DeliveredTo("crm"))
			cancel()
			require.NoError(t, err)
			waitLedger(t, srv)
		}
		out, errOut, code := run(t, step.args...)
		assert.Equal(t, step.code, code, "%s: %s", step.name, errOut)
		golden(t, step.name, out+errOut)
		assert.NotContains(t, out, "\x1b", "what senders and receivers chose must not steer the terminal")
	}
}

// TestExportListsAllCalls checks that calls prints more calls than a page of the API contains.
func TestExportListsAllCalls(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{})
	t.Setenv("COLLECTOR_URL", srv.URL)
	const sent = 612
	var batch []string
	for i := range sent {
		batch = append(batch, fmt.Sprintf(`{"type":"track","messageId":"m%d","userId":"=cmd()\n+1","event":"E","properties":{"n":%d}}`, i, i))
	}
	res, err := http.Post(srv.URL+"/v1/batch", "application/json", strings.NewReader(`{"writeKey":"w","batch":[`+strings.Join(batch, ",")+`]}`))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	for limit, want := range map[string]int{"0": sent, "550": 550, "1000": sent, "100": 100, "7": 7} {
		out, errOut, code := run(t, "calls", "--limit", limit, "--csv")
		require.Zero(t, code, errOut)
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 1+want, limit)
		assert.Equal(t, "userId", rows[0][5])
		assert.Equal(t, "'=cmd()\uFFFD+1", rows[1][5])
		assert.Equal(t, fmt.Sprintf("m%d", sent-want), rows[want][8])

		out, errOut, code = run(t, "calls", "--limit", limit, "-o", "jsonl")
		require.Zero(t, code, errOut)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, want, limit)
		assert.Contains(t, lines[want-1], fmt.Sprintf(`"n":%d}`, sent-want))
	}
}

func waitLedger(t *testing.T, srv *mockserver.Server) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		ledgers, err := srv.Ledger(t.Context())
		require.NoError(t, err)
		if ledgers[0].Pending+ledgers[1].Pending == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline))
	}
}

// TestOutputErrorsAreReported checks that a command fails if it cannot write its output.
func TestOutputErrorsAreReported(t *testing.T) {
	inDirectory(t, map[string]string{"plan.yaml": shopPlan})
	for _, args := range []string{"version", "plan check plan.yaml", "plan check plan.yaml --github", "plan diff plan.yaml plan.yaml", "transform test --program .type"} {
		var errOut strings.Builder
		code := Main(t.Context(), strings.Fields(args), strings.NewReader(paidCall), fullDisk{}, &errOut)
		assert.Equal(t, 1, code, args)
		assert.Contains(t, errOut.String(), "collector: no space left on device\n", args)
	}
}

// A fullDisk is a file that cannot be written.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code":"x","message":"one\u001b[2J\ntwo\u202e"}`)
	}))
	t.Cleanup(hostile.Close)
	_, errOut, code := run(t, "status", "--url", hostile.URL)
	assert.Equal(t, 1, code)
	assert.Equal(t, "collector: one\uFFFD[2J\ntwo\uFFFD\n", errOut)
}

func TestVerifyFailsIfALedgerDoesNotBalance(t *testing.T) {
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"holds":false,"destinations":[{"destination":"crm","accepted":5,"delivered":3,"failed":0,"filtered":0,"pending":1,"holds":false}]}`)
	}))
	t.Cleanup(liar.Close)
	out, errOut, code := run(t, "verify", "--url", liar.URL)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "DOES NOT BALANCE: off by 1")
	assert.Equal(t, "collector: the ledger does not balance\n", errOut)
}

// written writes text to a temporary file and returns its path.
func written(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestErrorMessages(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // HOME may be unset
	serve := func(h http.Handler) string {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL
	}
	address, closeIt, err := harness.ClosedPort()
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeIt() })
	closed := "http://" + address
	plain := serve(nil)
	inUse, secure := strings.TrimPrefix(plain, "http://"), "https"+strings.TrimPrefix(plain, "http")
	locked := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code":"x","message":"no"}`)
			return
		}
		_, _ = io.WriteString(w, `{"holds":true,"destinations":[]}`)
	}))
	token, long := written(t, "right\n"), written(t, strings.Repeat("a", 70_000))
	collector, err := engine.New(engine.Config{AnyWriteKey: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = collector.Close() })
	tracking, running := serve(collector), server(t).URL
	empty := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	number := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `null`) }))
	page := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>welcome</html>") }))
	nowhere, err := filepath.Abs("nowhere.yaml")
	require.NoError(t, err)

	for _, c := range []struct {
		name, args string // args are separated by spaces
		env        map[string]string
		code       int
		want       string
	}{
		{name: "nothing listens", args: "status --url " + closed, code: 1,
			want: "no collector at " + closed + ": start one with collector dev, or set --url"},
		{name: "no TLS", args: "status --url " + secure, code: 1, want: secure + " does not use TLS: use http:// in --url"},
		{name: "no TLS for calls", args: "send track --event E --user-id u --url " + secure, code: 1, want: secure + " does not use TLS: use http:// in --url"},
		{name: "no URL", args: "status --url http://[::1", code: 2, want: `invalid --url "http://[::1": use a URL such as http://127.0.0.1:8765`},
		{name: "no scheme in the environment", args: "status", env: map[string]string{"COLLECTOR_URL": address}, code: 1,
			want: "no collector at " + closed + ": start one with collector dev, or set --url"},
		{name: "no URL in the environment", args: "status", env: map[string]string{"COLLECTOR_URL": "/here"}, code: 2,
			want: `invalid COLLECTOR_URL "/here": use a URL such as http://127.0.0.1:8765`},
		{name: "a space after the URL in the environment", args: "status", env: map[string]string{"COLLECTOR_URL": closed + "/ "}, code: 2,
			want: "invalid COLLECTOR_URL " + strconv.Quote(closed+"/ ") + ": use a URL such as http://127.0.0.1:8765"},
		{name: "a URL with a query", args: "status --url " + closed + "/?a=b", code: 2, want: "invalid --url " + strconv.Quote(closed+"/?a=b") + ": use a URL such as http://127.0.0.1:8765"},
		{name: "a password in an invalid URL", args: "status --url ftp://me:hush@host", code: 2, want: `invalid --url "…@host": use a URL such as http://127.0.0.1:8765`},
		{name: "a long URL", args: "status --url " + strings.Repeat("a", 300), code: 2, want: `invalid --url "` + strings.Repeat("a", 200) + `…": use a URL such as http://127.0.0.1:8765`},
		{name: "a token with a line break", args: "verify --url " + locked, env: map[string]string{"COLLECTOR_TOKEN": "right\r\n"}, code: 2,
			want: "COLLECTOR_TOKEN: begins or ends with white space: remove it; a value from a file may end with a line break"},
		{name: "a token file with a byte order mark", args: "verify --url " + locked + " --token-file " + written(t, "\ufeffright\n"), code: 2,
			want: "--token-file: contains the invisible character U+FEFF: remove it, or type the value again"},
		{name: "a long token file", args: "verify --url " + locked + " --token-file " + long, code: 2,
			want: "--token-file: " + long + " is larger than 65536 bytes"},
		{name: "a write key with a line break", args: "send track --event E --user-id u --url " + running, env: map[string]string{"COLLECTOR_WRITE_KEY": "another-key\n"}, code: 2,
			want: "COLLECTOR_WRITE_KEY: begins or ends with white space: remove it; a value from a file may end with a line break"},
		{name: "a write key with a colon", args: "send track --event E --user-id u --write-key key: --url " + running, code: 2,
			want: "--write-key: contains a colon, which Basic authentication cannot transmit: use letters and digits"},
		{name: "a token of dev with a line break", args: "dev --listen :0 --data " + t.TempDir(), env: map[string]string{"COLLECTOR_TOKEN": "a-long-token\n"}, code: 2,
			want: "COLLECTOR_TOKEN: begins or ends with white space: remove it; a value from a file may end with a line break"},
		{name: "a CA file in the environment", args: "status --url " + secure, env: map[string]string{"COLLECTOR_CA_FILE": "none.pem"}, code: 2,
			want: "COLLECTOR_CA_FILE: open none.pem: no such file or directory"},
		{name: "an invisible character in a secret", args: "dev --webhook http://a --shared-secret hush\u200b", code: 2, want: "--shared-secret: contains the invisible character U+200B: remove it, or type the value again"},
		{name: "responses without a body", args: "status --json --url " + empty, code: 1, want: "the response (204 No Content) is not from a collector: check --url"},
		{name: "responses that are not objects", args: "status --json --url " + number, code: 1, want: "the response of " + number + " is not from the admin API: check --url"},
		{name: "an empty destination", args: "replay  --url " + running, code: 2, want: "specify one destination: collector replay DESTINATION [flags]; collector status lists them"},
		{name: "an empty messageId", args: "calls  --url " + running, code: 2, want: "the argument is empty: see collector calls --help"},
		{name: "an empty source", args: "delete-user u --source  --url " + running, code: 2, want: "--source is empty: see collector delete-user --help"},
		{name: "an empty number", args: "calls --limit= --url " + running, code: 2, want: `invalid --limit "": use a whole number`},
		{name: "two messageIds", args: "calls m1 --id m2 --url " + running, code: 2, want: "--id cannot be used with a messageId as an argument: use one of them"},
		{name: "unknown flag", args: "status --colour", code: 2, want: "unknown flag: --colour: see collector status --help"},
		{name: "a range that ends before it begins", args: "calls --until 2h --since 1h --url " + running, code: 2, want: "--until is before --since: use a later time or a smaller age"},
		{name: "a range of a replay", args: "replay crm --since 2026-01-31T12:00:00Z --until 2026-01-31T11:00:00Z --url " + running, code: 2, want: "--until is before --since: use a later time or a smaller age"},
		{name: "a negative duration", args: "send track --event E --user-id u --wait -1s --url " + running, code: 2, want: `invalid --wait "-1s": use a duration such as 30s or 5m`},
		{name: "a negative duration of another command", args: "delete-user u --wait=-1ns --url " + running, code: 2, want: `invalid --wait "-1ns": use a duration such as 30s or 5m`},
		{name: "a negative timeout", args: "health --timeout -5s --url " + running, code: 1, want: `invalid --timeout "-5s": use a duration such as 30s or 5m`},
		{name: "a limit of notifications", args: "deletions d --limit -1 --url " + running, code: 2, want: "invalid --limit -1: use a number from 1 to 500"},
		{name: "a port that is too large", args: "dev --listen :80000", code: 2, want: `invalid --listen ":80000": use an address such as 127.0.0.1:8765, or :8765 to accept connections from other machines`},
		{name: "a call to another server", args: "send track --event E --user-id u --url " + number, code: 1, want: "the response (200 OK) is not from a collector: check --url"},
		{name: "a call to a page", args: "send track --event E --user-id u --url " + page, code: 1, want: "the response (200 OK) is not from a collector: check --url"},
		{name: "properties in another encoding", args: "send track --event E --user-id u --properties @" + written(t, `{"city":"K`+"\xf6"+`ln"}`), code: 2, want: "--properties: not UTF-8: save the file in this encoding"},
		{name: "no token", args: "verify --url " + locked, code: 1, want: "the collector requires its admin token: set --token-file or COLLECTOR_TOKEN"},
		{name: "wrong token", args: "verify --url " + locked, env: map[string]string{"COLLECTOR_TOKEN": "wrong"}, code: 1,
			want: "invalid admin token: use the token in the file set by admin.tokenFile"},
		{name: "right token", args: "verify --url " + locked + " --token-file " + token, env: map[string]string{"COLLECTOR_TOKEN": "wrong"}},
		{name: "a file that is no token", args: "verify --url " + locked + " --token-file " + written(t, "listen: :8765\ndata: data\n"), code: 2, want: "--token-file has more than one line: use a file that contains only the secret"},
		{name: "an empty token", args: "verify --url " + locked + " --token-file " + written(t, "\n"), code: 2, want: "--token-file is empty: use a file that contains the secret"},
		{name: "the tracking API alone", args: "status --url " + tracking, code: 1,
			want: "no admin API at this address: set --url to the address of admin.listen"},
		{name: "wrong webhook", args: "dev --webhook ftp://a --header Host:b", code: 2, want: `--webhook "ftp://a" has the protocol "ftp": start it with https:// or http://
--header "Host" is set by the collector: remove it`},
		{name: "wrong header of two webhooks", args: "dev --webhook http://a --webhook http://b --header Host:b", code: 2, want: `--header "Host" is set by the collector: remove it`},
		{name: "webhooks without a scheme", args: "dev --webhook localhost:3000 --forward a=127.0.0.1:3000 --forward b=[::1]:3000/hook --allow x", code: 2, want: `invalid --allow "x": use a network such as 172.16.0.0/12`},
		{name: "webhook of another machine without a scheme", args: "dev --webhook example.com/hook --allow x", code: 2, want: `invalid --allow "x": use a network such as 172.16.0.0/12`},
		{name: "too many webhooks", args: "dev" + strings.Repeat(" --webhook http://a", 6), code: 2, want: "--webhook has 6 URLs: keep at most 5"},
		{name: "webhook in a private network", args: "dev --webhook http://localhost --webhook http://10.0.0.1/hook", code: 2,
			want: `--webhook "http://10.0.0.1/hook" points to 10.0.0.1, which is not allowed: private network 10.0.0.0/8: use a public address, or, if the receiver is yours, add --allow 10.0.0.0/8`},
		{name: "webhook at the metadata service", args: "dev --webhook http://169.254.169.254 --allow 169.254.0.0/16", code: 2,
			want: `--webhook "http://169.254.169.254" points to 169.254.169.254, which is not allowed: cloud metadata service 169.254.169.254/32: no setting allows it; use a different address`},
		{name: "secret without webhook", args: "dev --shared-secret x", code: 2, want: "--header and --shared-secret require a webhook: add --webhook URL or --forward NAME=URL"},
		{name: "forward without name", args: "dev --forward https://a.example/?b=c", code: 2, want: `--forward "https://a.example/?b=c" has no name: use NAME=URL`},
		{name: "forward with an empty name", args: "dev --forward =http://a", code: 2, want: `--forward "=http://a": name: is empty: use 1 to 100 printable characters`},
		{name: "forward without URL", args: "dev --forward a", code: 2, want: `--forward "a" has no name: use NAME=URL`},
		{name: "forward beside webhook", args: "dev --webhook http://a --forward dev=http://b", code: 2, want: "--forward dev has the same name as the --webhook destination: choose another name"},
		{name: "wrong forward", args: "dev --webhook http://a --forward a=ftp://b --forward a=http://c", code: 2, want: `--forward "a=ftp://b" has the protocol "ftp": start it with https:// or http://
--forward "a=http://c" duplicates "a": give each destination a unique name`},
		{name: "no configuration", args: "serve", code: 2, want: "--config is not set: name a file, or start with collector serve --example > collector.yaml"},
		{name: "configuration that is not there", args: "serve --config nowhere.yaml", code: 2, want: "--config: open " + nowhere + ": no such file or directory"},
		{name: "address without port", args: "dev --listen localhost", code: 2, want: `invalid --listen "localhost": use an address such as 127.0.0.1:8765, or :8765 to accept connections from other machines`},
		{name: "JSON and quiet", args: "dev --json --quiet", code: 2, want: "--quiet and --json cannot be used together"},
		{name: "no network", args: "dev --allow 10.1.2", code: 2, want: `invalid --allow "10.1.2": use a network such as 172.16.0.0/12`},
		{name: "address in use", args: "dev --data " + t.TempDir() + " --listen " + inUse, code: 1,
			want: "--listen " + inUse + ": the address is in use: stop the other program, or choose another address"},
		{name: "unknown write key", args: "send track --event E --user-id u --write-key another-key --url " + running, code: 1,
			want: "the collector refused the call: no source has this write key: set --write-key or COLLECTOR_WRITE_KEY to the write key of a source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			_, errOut, code := run(t, strings.Split(c.args, " ")...)
			assert.Equal(t, c.code, code)
			assert.Equal(t, c.want, strings.TrimSuffix(strings.TrimPrefix(errOut, "collector: "), "\n"))
		})
	}
}

func TestCommandsUseTLS(t *testing.T) {
	srv := server(t)
	secure := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(srv.URL)
		r.SetURL(to)
	}})
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // omits failed handshakes
	dir := t.TempDir()
	authority, text := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "text")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(block), 0o600))
	require.NoError(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	send := []string{"send", "track", "--event", "E", "--user-id", "u", "--wait", "1m", "--integrations", `{"All":false}`}
	for _, step := range []struct {
		name  string
		args  []string
		wrong string
	}{
		{"unknown authority", []string{"--url", secure.URL}, "certificate signed by unknown authority: set --ca-file to the certificate of its CA\n"},
		{"no TLS", []string{"--url", "http" + strings.TrimPrefix(secure.URL, "https")}, "the collector uses TLS: use https:// in --url\n"},
		{"no file", []string{"--url", secure.URL, "--ca-file", filepath.Join(dir, "none")}, "collector: --ca-file: open "},
		{"no certificate", []string{"--url", secure.URL, "--ca-file", text}, "text\" contains no certificate: use a PEM file\n"},
		{"right", []string{"--url", secure.URL, "--ca-file", authority}, ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			for _, command := range [][]string{{"status"}, send} {
				_, errOut, code := run(t, slices.Concat(command, step.args)...)
				assert.Equal(t, step.wrong == "", code == 0)
				assert.Contains(t, errOut, step.wrong)
			}
		})
	}
	t.Setenv("COLLECTOR_CA_FILE", authority)
	_, errOut, code := run(t, "status", "--url", secure.URL)
	assert.Zero(t, code, errOut)
}

func TestExampleIsValid(t *testing.T) {
	dir := t.TempDir()
	example, _, code := run(t, "serve", "--example")
	require.Zero(t, code)
	path := filepath.Join(dir, "collector.yaml")
	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	_, errOut, code := run(t, "check", "--config", path)
	assert.Equal(t, 1, code)
	assert.Regexp(t, "^"+regexp.QuoteMeta(path)+`:[0-9]+:5: sources\[0\].writeKey is the placeholder from the example: use a random string, such as the output of openssl rand -hex 32\n$`, errOut, "nothing else is to be filled in")
	example = strings.Replace(example, "change-me-to-a-long-random-text", "3f1c9a", 1)
	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	out, errOut, code := run(t, "check", "--config", path)
	assert.Zero(t, code, errOut)
	assert.Empty(t, errOut)
	assert.Equal(t, "config OK: 1 source, 1 destination, listening on 127.0.0.1:8765\n", out)

	// The commented settings are also valid, except that their files do not exist.
	var all []string
	for line := range strings.Lines(example) {
		uncommented := regexp.MustCompile(`^( *)# ( *(- )?[a-zA-Z]+:.*)`).ReplaceAllString(strings.TrimRight(line, "\n"), "$1$2")
		all = append(all, uncommented)
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(all, "\n")), 0o600))
	_, err := config.Load(path)
	for _, problem := range err.(config.Problems) { //nolint:errorlint // Load returns this type
		assert.Regexp(t, `cannot be|is set together with|environment variable|has no token`, problem.Error())
	}

	require.NoError(t, os.WriteFile(path, []byte("data: d\nlisten: 7"), 0o600))
	_, errOut, code = run(t, "check", "--config", path)
	assert.Equal(t, 1, code)
	assert.Contains(t, errOut, path+`:2:1: listen is "7": use host:port`)
	out, errOut, code = run(t, "check", "--config", path, "--json")
	assert.Equal(t, 1, code)
	assert.Empty(t, errOut)
	assert.Contains(t, out, `"line": 2,
      "column": 1,
      "field": "listen",
      "wrong": "is \"7\"",`)

	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("#"), 2<<20), 0o600))
	out, errOut, code = run(t, "check", "--config", path, "--json")
	assert.Equal(t, 1, code)
	assert.Empty(t, errOut)
	assert.Contains(t, out, `"wrong": "is larger than 1048576 bytes"`)
}

func TestCompletion(t *testing.T) {
	server(t)
	for _, args := range [][]string{
		{"track", "--event", "Signed Up", "--message-id", "m1"},
		{"track", "--event", "Signed Up", "--message-id", "m2"},
		{"page", "--name", "Docs", "--message-id", "m3"},
		{"track", "--event", "a\x1b[2J\tb", "--message-id", "m4"},
	} {
		_, errOut, code := run(t, append(append([]string{"send"}, args...), "--user-id", "u1")...)
		require.Zero(t, code, errOut)
	}
	const (
		none    = ":4\n"  // no files
		ordered = ":36\n" // no files, in this order
		events  = "Docs\tpage\nSigned Up\ttrack\n" + ordered
		calls   = "m4\ttrack a\uFFFD[2J\uFFFDb\nm3\tpage Docs\nm2\ttrack Signed Up\nm1\ttrack Signed Up\n" + ordered
	)
	for line, want := range map[string]string{
		"pause |":                              "crm\ngone\nother\n" + ordered,
		"pause crm |":                          none,
		"calls --state |":                      "pending\ndelivered\nfailed\nfiltered\nrejected\n:4\n",
		"calls --source |":                     "web\n" + ordered,
		"calls --event |":                      events,
		"send track --event |":                 events,
		"destinations add crm --event |":       events,
		"calls |":                              calls,
		"calls m1 |":                           none,
		"open |":                               calls,
		"replay crm --id |":                    calls,
		"calls --url http://127.0.0.1:1 |":     ":1\n",
		"calls --event X --url :// --source |": ":1\n",
	} {
		args := append([]string{"__complete"}, strings.Split(strings.TrimSuffix(line, "|"), " ")...)
		assert.EventuallyWithT(t, func(c *assert.CollectT) { // statistics of events follow the calls
			out, _, _ := run(t, args...)
			assert.Equal(c, want, out, line)
		}, time.Minute, 10*time.Millisecond)
	}
}

// TestDevWelcome starts collector dev and runs the command it prints.
func TestDevWelcome(t *testing.T) {
	arrived := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		assert.NoError(t, webhook.Verify("hush", body, r.Header.Get("X-Signature")))
		assert.Equal(t, "growth", r.Header.Get("X-Team"))
		if r.URL.Path == "/other" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		arrived <- string(body)
	}))
	t.Cleanup(receiver.Close)
	ctx, cancel := context.WithCancel(t.Context())
	out := &watchedBuffer{said: make(chan struct{})}
	var command sync.WaitGroup
	command.Go(func() {
		code := Main(ctx, []string{
			"dev", "--listen", "127.0.0.1:0", "--data", t.TempDir(),
			"--webhook", receiver.URL, "--header", "X-Team: growth", "--shared-secret", "hush",
			"--forward", "other=" + receiver.URL + "/other",
		}, nil, out, io.Discard)
		assert.Zero(t, code)
	})
	defer command.Wait()
	defer cancel()
	<-out.said
	text := out.String()
	line := regexp.MustCompile(`curl (\S+) -u (\S+): -d '(.*)'`).FindStringSubmatch(text)
	require.NotNil(t, line, text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, line[1], strings.NewReader(line[3]))
	require.NoError(t, err)
	req.SetBasicAuth(line[2], "")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	assert.Equal(t, 200, res.StatusCode)
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(<-arrived), &body))
	assert.Equal(t, "Signed Up", body["event"])
	for _, want := range []string{`[{"event":"Signed Up","userId":"u1","type":"track"}]` + "\n", "[]\n"} {
		res, err := http.Post(strings.TrimSuffix(line[1], "v1/track")+"messages", "", nil)
		require.NoError(t, err)
		messages, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, want, string(messages))
	}
	// The success of one destination does not hide the failure of the other.
	base := strings.TrimSuffix(line[1], "/v1/track")
	require.Eventually(t, func() bool {
		out, _, code := run(t, "status", "--url", base, "--json")
		return code == 0 && strings.Contains(strings.Join(strings.Fields(out), ""), `"failed":1`)
	}, 2*time.Minute, 20*time.Millisecond)
	golden(t, "dev", regexp.MustCompile(`/\S+/00\d`).ReplaceAllString(text, "DATA"))
}

// watchedBuffer signals when the welcome message is complete.
type watchedBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
	said chan struct{} // closed by Write
	once sync.Once
}

func (b *watchedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.text.Write(p)
	if strings.Contains(b.text.String(), "Ctrl-C") {
		b.once.Do(func() { close(b.said) })
	}
	return n, err
}

func (b *watchedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestJSONIsPrintedUnchanged(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, new(output).print(&out, json.RawMessage(`{"b":"<&>\u00e9","a":12345678901234567890}`), ""))
	assert.Equal(t, "{\n  \"b\": \"<&>\\u00e9\",\n  \"a\": 12345678901234567890\n}\n", out.String())
}

func TestAgesAreNeverNegative(t *testing.T) {
	for since, want := range map[time.Time]string{
		{}:                          "",
		time.Now().Add(time.Hour):   "0s ago",
		time.Now().AddDate(2, 0, 0): "0s ago",
	} {
		if got := age(since); got != want {
			t.Errorf("age(%v) = %q, want %q", since, got, want)
		}
	}
}

func TestStatusShowsServersAndCorruption(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/destinations") {
			_, _ = io.WriteString(w, `{"destinations":[]}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ready","journal":{"bytes":1,"limitBytes":2,
			"servers":[{"name":"a","version":"2.15.2","sync":"always","syncInterval":"always"},
				{"name":"b","version":"2.15.2","sync":"lazy","syncInterval":"2m0s"},{"name":"c","sync":"unknown"}],
			"replicas":[{"stream":"S","server":"c","state":"noJetStream"},{"stream":"S","server":"b","state":"behind","lag":7},
				{"stream":"T","server":"b","state":"offline"},{"stream":"T","state":"missing"},{"stream":"U","state":"unanswered"}],
			"scrub":{"bytes":5,"rounds":1,"damage":["server b: 3 messages"]}}}`)
	}))
	defer api.Close()
	out, errOut, code := run(t, "status", "--url", api.URL)
	require.Zero(t, code, errOut)
	for _, want := range []string{
		"CORRUPTION: server b: 3 messages\n",
		"REPLICA: S on c: JetStream is not running; see the server's log\n",
		"REPLICA: S on b: 7 operations behind\n",
		"REPLICA: T on b: no response; the server is down, disconnected or without JetStream\n",
		"REPLICA: T has fewer replicas than configured\n",
		"REPLICA: U does not respond: it may have no leader\n",
		"server a, version 2.15.2: syncs calls to disk before acknowledging them\n",
		"server b, version 2.15.2: acknowledges calls BEFORE they are on disk (sync_interval 2m0s)\n",
		"server c, version unknown: unknown whether it syncs calls to disk before acknowledging them; set nats.monitor\n",
	} {
		assert.Contains(t, out, want)
	}
}
