package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

// binary is the command: this test's own binary, which runs it where the
// environment says so. Under the race detector that looks at the command too.
var binary string

// asCollector is the variable that makes this binary the command.
const asCollector = "COLLECTOR_E2E_RUN"

// parts are what else this binary can be made to run, by its first argument.
var parts = map[string]func(args []string){natsServerArg: runNATSServer}

func TestMain(m *testing.M) {
	if os.Getenv(asCollector) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			part(os.Args[2:])
			return
		}
	}
	var err error
	if binary, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// full returns how often something is to be done: in full where the environment
// says so.
func full(t *testing.T, variable string, short int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, variable)
		return n
	}
	return short
}

// writeKey is that of the source of all tests.
const writeKey = "load"

// configure writes a configuration and returns its path and where it listens.
func configure(t *testing.T, dir, store, destinations string) (path, address string) {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	path = filepath.Join(dir, "collector.yaml")
	text := fmt.Sprintf("listen: %s\n%s\nlog: {level: info}\negress: {allow: [127.0.0.0/8]}\nsources: [{name: web, writeKey: %s}]\ndestinations:\n%s", address, store, writeKey, destinations)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path, address
}

func destination(name, url string) string {
	return fmt.Sprintf("- {name: %s, webhooks: [{url: '%s'}]}\n", name, url)
}

// start starts a collector.
func start(path, address string, prepare func(*exec.Cmd)) (*harness.Collector, error) {
	return harness.Serve(binary, path, address, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), asCollector+"=1")
		if prepare != nil {
			prepare(cmd)
		}
	})
}

// serve starts a collector, which the test ends if nobody else did.
func serve(t *testing.T, path, address string, prepare func(*exec.Cmd)) *harness.Collector {
	t.Helper()
	c, err := start(path, address, prepare)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("the collector said:\n%s", c.Log())
		}
	})
	return c
}

// verify runs collector verify, which proves the ledger from what is stored.
func verify(t *testing.T, c *harness.Collector) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "verify", "--url", c.URL)
	cmd.Env = append(os.Environ(), asCollector+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// A ledger is the account of a destination.
type ledger struct {
	Destination                                          string
	Accepted, Delivered, Failed, Filtered, Pending, Lost int64
}

// ledgers asks for the account of every destination, by name.
func ledgers(t *testing.T, url string) map[string]ledger {
	t.Helper()
	var answer struct{ Destinations []ledger }
	require.NoError(t, ask(t.Context(), http.MethodGet, url+"/api/v1/ledger", &answer))
	all := map[string]ledger{}
	for _, l := range answer.Destinations {
		all[l.Destination] = l
	}
	return all
}

func ask(ctx context.Context, method, url string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(answer)
}

// metrics returns what Prometheus would scrape.
func metrics(t *testing.T, c *harness.Collector) string {
	t.Helper()
	res, err := http.Get(c.URL + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// settled waits until no destination has anything pending.
func settled(t *testing.T, url string, patience time.Duration) map[string]ledger {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		all := ledgers(t, url)
		pending := int64(0)
		for _, l := range all {
			pending += l.Pending
		}
		if pending == 0 {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v still pending: %+v", patience, all)
		}
	}
}

// wantAll asserts that a receiver got every call that was answered 200, and that
// the ledger says the same. twice is how many calls may be stored twice: those
// that were sent again to another collector before it could know of them.
func wantAll(t *testing.T, load *harness.Load, r *harness.Receiver, l ledger, twice int64) {
	t.Helper()
	assert.Zero(t, r.Missing(load), "calls that were answered 200 did not arrive at %s", l.Destination)
	assert.Equal(t, load.Sent.Load(), r.Distinct())
	assert.GreaterOrEqual(t, l.Accepted, load.Sent.Load(), l.Destination)
	assert.LessOrEqual(t, l.Accepted, load.Sent.Load()+twice, "%s: each call is stored once, however often it was sent", l.Destination)
	assert.Equal(t, l.Accepted, l.Delivered, "%+v", l)
}
