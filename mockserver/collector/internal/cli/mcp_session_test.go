package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

// An order is an order of the example shop.
type order struct {
	ID, Customer string
	Total        float64
	Quantity     int
}

// firstVersion is the agent's first version of the code, which does not match the plan.
func firstVersion(client *analytics.Client, o order) error {
	return client.Track(&analytics.Track{
		UserId: o.Customer, Event: "Order Completed",
		Properties: map[string]interface{}{"oderId": o.ID, "total": "9.90", "currency": "eur"},
	})
}

// secondVersion is the corrected version.
func secondVersion(client *analytics.Client, o order) error {
	return client.Track(&analytics.Track{
		UserId: o.Customer, Event: "Order Completed",
		Properties: map[string]interface{}{
			"orderId": o.ID, "total": o.Total, "currency": "EUR",
			"items": []map[string]interface{}{{"sku": "TEA-7", "quantity": o.Quantity}},
		},
	})
}

// A recording is the agent session in docs/mcp.md.
type recording struct {
	agent
	url, receiver string
	document      string
	next          int // position in the document after the last step
}

// buy runs the shop's code with one order.
func (r *recording) buy(track func(*analytics.Client, order) error, id string) {
	client := analytics.New("shop")
	client.Endpoint = r.url
	require.NoError(r.t, track(client, order{ID: id, Customer: "ada", Total: 9.9, Quantity: 2}))
	require.NoError(r.t, client.Close())
}

// replacements are the fixed values in the document for the parts of results that differ between runs.
var replacements = []struct {
	pattern *regexp.Regexp
	value   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "2026-11-26T10:00:00Z"},
	{regexp.MustCompile(`"durationMs": [\d.]+`), `"durationMs": 1.2`},
	{regexp.MustCompile(`contains [\d.]+ \w+ of [\d.]+ \w+`), "contains 1.2 KB of 8.0 GB"},
	{regexp.MustCompile(`after [1-9]\d*(\.\d+)?s`), "after 2s"},
	{regexp.MustCompile(`after (0s|\d+ms)`), "after 8ms"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "019ac0f2-5a3e-7d1c-9b6e-1f2a3b4c5d6e"},
	{regexp.MustCompile(`"seq": \d+`), `"seq": 1795687200200002`},
	{regexp.MustCompile(`"ref": "[0-9a-f]+"`), `"ref": "4f0c0e6cbf9d5a9e3a1f9a4b6c2d7e80"`},
}

// step calls a tool, and compares the next recorded block of the document with the result. With
// -update, it writes the block.
func (r *recording) step(tool, arguments string) {
	r.t.Helper()
	text, failed := r.call(tool, arguments)
	require.False(r.t, failed, text)
	got := indented(text)
	for _, r := range replacements {
		got = r.pattern.ReplaceAllString(got, r.value)
	}
	got = strings.NewReplacer(r.url, "http://127.0.0.1:8765", r.receiver, "http://127.0.0.1:3000").Replace(tool + " " + arguments + "\n\n" + got)
	const begin, end = "<!-- recorded -->\n```text\n", "```\n"
	start := strings.Index(r.document[r.next:], begin)
	require.GreaterOrEqual(r.t, start, 0, "the document has no block for %s: add %q", tool, begin+end)
	start += r.next + len(begin)
	length := strings.Index(r.document[start:], end)
	require.GreaterOrEqual(r.t, length, 0)
	if *update {
		r.document = r.document[:start] + got + r.document[start+length:]
		length = len(got)
	}
	assert.Equal(r.t, r.document[start:start+length], got, "to record it again, run go test ./internal/cli -run Session -update")
	r.next = start + length
}

// TestMCPSession repeats the session in docs/mcp.md: an agent adds tracking to the example shop and
// checks it, with a real process and the official client.
func TestMCPSession(t *testing.T) {
	plan, err := os.ReadFile(filepath.FromSlash("../../../../examples/plan/plan.yaml"))
	require.NoError(t, err)
	path, err := filepath.Abs(filepath.FromSlash("../../../../docs/mcp.md"))
	require.NoError(t, err)
	document, err := os.ReadFile(path)
	require.NoError(t, err)

	var deployed atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !deployed.Load() {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "no route /hook")
		}
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), plan, 0o600))
	r := recording{
		agent:    stdio(t, dir, "--dev", "--listen", "127.0.0.1:0", "--forward", "crm="+receiver.URL+"/hook", "--allow-changes"),
		receiver: receiver.URL, document: string(document),
	}
	r.url = regexp.MustCompile(`http://[^;]+`).FindString(r.read("get_status", `{}`).Summary)

	r.step("get_status", `{}`)
	r.buy(firstVersion, "o-1")
	r.step("wait_for_calls", `{"within":"2s","expect":[{"event":"Order Completed","userId":"ada","properties":{"orderId":"o-1","total":9.9}}]}`)
	r.step("check_plan", `{"planFile":"plan.yaml","event":"Order Completed"}`)
	r.buy(secondVersion, "o-2")
	r.step("wait_for_calls", `{"within":"10s","expect":[{"event":"Order Completed","userId":"ada","properties":{"orderId":"o-2","total":9.9}}]}`)
	r.step("check_plan", `{"planFile":"plan.yaml","where":["prop.orderId:o-2"]}`)
	r.await("failed", 2)
	r.step("search_calls", `{"state":"failed","where":["prop.orderId:o-2"]}`)
	deployed.Store(true)
	r.step("test_destination", `{"destination":"crm"}`)
	r.step("replay_calls", `{"destination":"crm","where":["prop.orderId:o-2"]}`)

	assert.NotContains(t, r.document[r.next:], "<!-- recorded -->", "the session has fewer steps than the document")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(r.document), 0o600))
	}
}

// await waits until n calls have a status.
func (r *recording) await(state string, n int) {
	r.t.Helper()
	require.NoError(r.t, poll(r.t.Context(), "the test", func() (bool, error) {
		found := r.read("search_calls", `{"state":"`+state+`"}`)
		data, err := json.Marshal(found.Untrusted)
		return strings.Count(string(data), `"seq"`) == n, err
	}))
}
