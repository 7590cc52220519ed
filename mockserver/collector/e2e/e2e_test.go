package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// binary is the path of the test binary, which runs the collector if asCollector is set. If the
// race detector is enabled, it therefore also covers the collector.
var binary string

// asCollector is an environment variable that makes this binary run the collector.
const asCollector = "COLLECTOR_E2E_RUN"

// parts are other programs that this binary can run, keyed by their first argument.
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

// full returns the number of repetitions: the value of an environment variable, or short if the
// variable is not set.
func full(t *testing.T, variable string, short int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, variable)
		return n
	}
	return short
}

// writeKey and otherKey are the write keys of the two sources of all tests.
const writeKey, otherKey = "load", "other"

// configure writes a configuration and returns its path and its listen address.
func configure(t *testing.T, dir, store, destinations string) (path, address string) {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	path = filepath.Join(dir, "collector.yaml")
	text := fmt.Sprintf("listen: %s\n%s\nlog: {level: info}\negress: {allow: [127.0.0.0/8]}\nsources: [{name: web, writeKey: %s}, {name: other, writeKey: %s}]\ndestinations:\n%s", address, store, writeKey, otherKey, destinations)
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

// serve starts a collector and stops it when the test ends.
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

// verify runs the command collector verify, which recomputes the ledger from stored data.
func verify(t *testing.T, c *harness.Collector) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "verify", "--url", c.URL)
	cmd.Env = append(os.Environ(), asCollector+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// ledgers returns the ledgers of all destinations, keyed by destination.
func ledgers(t *testing.T, c *harness.Collector) map[string]tracking.Ledger {
	t.Helper()
	all, err := askLedgers(t, c)
	require.NoError(t, err)
	return all
}

// askLedgers is like ledgers, but returns the error.
func askLedgers(t *testing.T, c *harness.Collector) (map[string]tracking.Ledger, error) {
	var answer struct{ Destinations []tracking.Ledger }
	err := c.Ask(t.Context(), http.MethodGet, "/ledger", nil, &answer)
	all := map[string]tracking.Ledger{}
	for _, l := range answer.Destinations {
		l.OldestPending = time.Time{} // differs between runs
		all[l.Destination] = l
	}
	return all, err
}

// waitFor waits until holds returns true.
func waitFor(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) { // other processes cannot notify the test
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// settled waits until no call is pending. It fails if the number of pending calls stops falling. Errors
// count as no progress, because the collector may still be connecting to its cluster.
func settled(t *testing.T, c *harness.Collector) (all map[string]tracking.Ledger) {
	t.Helper()
	for left := int64(math.MaxInt64); left > 0; {
		before := left
		waitFor(t, 3*time.Minute, fmt.Sprintf("less is pending than %d calls", before), func() bool {
			var err error
			all, err = askLedgers(t, c)
			left = 0
			for _, l := range all {
				left += l.Pending
			}
			return err == nil && left < before
		})
	}
	return all
}

// send starts a load. The function stop ends the load when all requests have a response.
func send(t *testing.T, load *harness.Load) (stop func()) {
	end := load.Start()
	t.Cleanup(func() { end(0) })
	return func() { end(2 * time.Minute) }
}

// wantAll asserts that a receiver got every accepted call, and that the ledger has the same
// numbers. twice limits the number of duplicates: calls that were retried on another collector
// before it received the first copy.
func wantAll(t *testing.T, load *harness.Load, r *harness.Receiver, l tracking.Ledger, twice int64) {
	t.Helper()
	assert.Zero(t, r.Missing(load), "calls that were answered 200 did not arrive at %s", l.Destination)
	assert.Equal(t, load.Sent.Load(), r.Distinct())
	assert.GreaterOrEqual(t, l.Accepted, load.Sent.Load(), l.Destination)
	assert.LessOrEqual(t, l.Accepted, load.Sent.Load()+twice, "%s: each call is stored once, however often it was sent", l.Destination)
	assert.Equal(t, l.Accepted, l.Delivered, "%+v", l)
}
