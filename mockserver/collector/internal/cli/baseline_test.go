package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// sendRun sends the calls of a test run. Its IDs and times differ in each run.
func sendRun(t *testing.T, id, plan string, seats any) {
	t.Helper()
	for _, args := range [][]string{
		{"page", "--name", "Home", "--anonymous-id", "0d8f3c1e-6a55-4d9e-b3ad-" + id},
		{"track", "--event", "Signed Up", "--user-id", "user-123", "--properties", fmt.Sprintf(`{"plan":%q,"seats":%v,"requestId":"9f86d081884c%s"}`, plan, seats, id)},
		{"identify", "--user-id", "user-123", "--anonymous-id", "0d8f3c1e-6a55-4d9e-b3ad-" + id, "--traits", `{"name":"\u001b[31mAda"}`},
	} {
		_, errOut, code := run(t, append([]string{"send"}, args...)...)
		require.Zero(t, code, errOut)
	}
}

func TestBaseline(t *testing.T) {
	srv := server(t)
	testdata, err := filepath.Abs("testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	invoke := func(name string, wantCode int, args ...string) string {
		t.Helper()
		out, errOut, code := run(t, append([]string{"baseline"}, args...)...)
		assert.Equal(t, wantCode, code, out+errOut)
		assert.NotContains(t, out, "\x1b", "senders must not control the terminal")
		golden(t, filepath.Join(testdata, "baseline-"+name), out+errOut)
		return out
	}
	invoke("no-calls", 1, "record")
	sendRun(t, "111111111111", "Enterprise", 3)
	printed := invoke("record-print", 0, "record")
	invoke("record", 0, "record", "tracking.json")
	recorded, err := os.ReadFile("tracking.json")
	require.NoError(t, err)
	assert.Equal(t, printed, string(recorded))

	srv.Clear()
	sendRun(t, "222222222222", "Enterprise", 3)
	invoke("equal", 0, "check", "tracking.json")
	invoke("equal-json", 0, "check", "tracking.json", "--json")
	invoke("filtered", 1, "check", "tracking.json", "--type", "track", "--where", "prop.seats:>2")

	srv.Clear()
	sendRun(t, "333333333333", "Enterprise", `"4"`)
	_, _, code := run(t, "send", "track", "--event", "Order Completed", "--user-id", "user-123", "--properties", `{"total":25.5}`)
	require.Zero(t, code)
	invoke("different", 1, "check", "tracking.json")
	invoke("different-json", 1, "check", "tracking.json", "--json")
	invoke("different-jsonl", 1, "check", "tracking.json", "-o", "jsonl")
	invoke("widen-other-calls", 1, "record", "tracking.json", "--widen")
	invoke("accept", 0, "record", "tracking.json")
	invoke("accepted", 0, "check", "tracking.json")

	srv.Clear()
	sendRun(t, "444444444444", "Free", `5`)
	_, _, code = run(t, "send", "track", "--event", "Order Completed", "--user-id", "user-123", "--properties", `{"total":30}`)
	require.Zero(t, code)
	invoke("widen", 0, "record", "tracking.json", "--widen")
	invoke("widened", 0, "check", "tracking.json")
	text, err := os.ReadFile("tracking.json")
	require.NoError(t, err)
	for _, line := range []string{`"plan": "<string>"`, `"seats": "<any>"`, `"total": "<number>"`} {
		assert.Contains(t, string(text), line)
	}
}

func TestBaselineErrors(t *testing.T) {
	server(t)
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	t.Chdir(t.TempDir())
	write(t, "package.json", `{"version":"1.0.0"}`)
	write(t, "tracking.json", `{"version":1,"users":[]}`)
	sendRun(t, "111111111111", "Enterprise", 3)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"baseline check", 2, "specify one file: collector baseline check FILE [flags]"},
		{"baseline check nowhere.json", 2, "open nowhere.json: no such file or directory"},
		{"baseline check package.json", 2, "package.json: not a baseline: cannot unmarshal string into Go struct field File.version of type int"},
		{"baseline check tracking.json --url " + other.URL, 1, "the response (404 Not Found) is not from a collector: check --url"},
		{"baseline check tracking.json --since soon", 2, `invalid --since "soon": use a time such as 2026-01-31T12:00:00Z, or an age such as 90m or 7d, up to ten years`},
		{"baseline record package.json", 2, "package.json: not a baseline: cannot unmarshal string into Go struct field File.version of type int"},
		{"baseline record nowhere.json --widen", 2, "open nowhere.json: no such file or directory: record a run first, without --widen"},
		{"baseline record --widen", 2, "--widen requires a file: collector baseline record [FILE] [flags]"},
		{"baseline record a.json b.json", 2, `unexpected argument "b.json": see collector baseline record --help`},
	} {
		t.Run(c.args, func(t *testing.T) {
			out, errOut, code := run(t, strings.Fields(c.args)...)
			assert.Equal(t, c.code, code)
			assert.Empty(t, out)
			assert.Equal(t, "collector: "+c.want+"\n", errOut)
		})
	}
	text, err := os.ReadFile("package.json")
	require.NoError(t, err)
	assert.Equal(t, `{"version":"1.0.0"}`, string(text), "other files must not be overwritten")
}

// TestBaselineNeedsAllCallsOfTheRun checks that a run is not compared after some of its calls have
// expired.
func TestBaselineNeedsAllCallsOfTheRun(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{KeepCalls: 3})
	t.Setenv("COLLECTOR_URL", srv.URL)
	t.Setenv("COLLECTOR_WRITE_KEY", "any")
	t.Setenv("COLLECTOR_TOKEN", "")
	t.Chdir(t.TempDir())
	sendRun(t, "111111111111", "Enterprise", 3)
	_, errOut, code := run(t, "baseline", "record", "tracking.json")
	require.Zero(t, code, errOut)
	sendRun(t, "222222222222", "Enterprise", 3) // displaces the first run
	start := srv.Calls()[2].ReceivedAt.Add(time.Millisecond)
	time.Sleep(time.Until(start)) // times have a resolution of a millisecond
	_, _, code = run(t, "send", "page", "--name", "Home", "--user-id", "u")
	require.Zero(t, code)
	const lost = "collector: the collector no longer retains all calls of the run: set --since to the start of the run, restart the collector, or record fewer calls; it retains at most limits.history calls and 32 MiB\n"
	for _, c := range []struct {
		since []string
		want  string
	}{
		{nil, lost},
		{[]string{"--since", srv.Calls()[0].ReceivedAt.Format(time.RFC3339Nano)}, lost}, // an earlier call of the run may have expired
		{[]string{"--since", start.Format(time.RFC3339Nano)}, ""},                       // retained, but different
	} {
		_, errOut, code := run(t, append([]string{"baseline", "check", "tracking.json"}, c.since...)...)
		assert.Equal(t, c.want, errOut, c.since)
		assert.Equal(t, 1, code, c.since)
	}
}
