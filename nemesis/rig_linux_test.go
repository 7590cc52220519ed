package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

// rig contains the programs and the state of a round: a collector with its own disk, a load, a
// receiver, and the expected losses.
type rig struct {
	*testing.T
	seed     uint64
	random   *rand.Rand
	disk     *disk.Disk // nil if the collector uses a cluster
	dir      string     // the directory of the configuration file
	binary   string
	env      []string // additional environment variables of the collector
	address  string
	settings string // additional lines of the configuration
	hook     string // additional settings of the destination; a comma follows each setting

	collector *harness.Collector // nil until the collector is started
	load      *harness.Load
	stopLoad  func(grace time.Duration)
	receiver  *receiver
	result    result

	// mayStoreTwice is true if the collector can store a call although it refused the call.
	mayStoreTwice bool
	own           int // number of calls that the collector creates
	// Calls with a 200 response between these times may be lost.
	mayLose, mayLoseUntil time.Time
}

// newRig creates a receiver and a configuration. It does not start a collector.
func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	r := &rig{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), binary: binaries.collector(t), receiver: newReceiver(t)}
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	r.address = address
	r.load = &harness.Load{
		URLs: []string{"http://" + r.address}, WriteKey: "load", Run: byte(seed),
		Senders: 4, Batch: 20, Singly: true, CallSize: 600, Noise: true, Rate: 1000,
	}
	r.stopLoad = func(time.Duration) {} // does nothing, because no load is running
	t.Cleanup(func() {
		r.kill()
		if t.Failed() && r.collector != nil {
			t.Logf("output of the last collector:\n%s", tail(withoutRefusals(r.collector.Log()), 6000))
		}
	})
	return r
}

// onDisk creates a disk for the rig. If fs is empty, the seed selects ext4 or xfs.
func (r *rig) onDisk(fs string) {
	r.Helper()
	if fs == "" {
		fs = []string{"ext4", "xfs"}[r.seed%2]
	}
	d, err := disk.New(disk.Options{Dir: r.TempDir(), FS: fs, Seed: r.seed})
	require.NoError(r, err)
	r.disk = d
	r.result.note("on %s", fs)
	r.Cleanup(func() {
		r.stopLoad(0)
		r.kill()
		assert.NoError(r, d.Close())
	})
}

// data returns the collector's data directory.
func (r *rig) data() string { return filepath.Join(r.disk.Path(), "data") }

// configure writes the configuration file, with one destination that is named hook.
func (r *rig) configure() string {
	r.Helper()
	path := filepath.Join(r.dir, "collector.yaml")
	data := ""
	if r.disk != nil {
		data = "data: " + r.data()
	}
	text := fmt.Sprintf("listen: %s\n%s\n%s\nadmin: {token: %s}\negress: {allow: [127.0.0.0/8, 10.0.0.0/8]}\nsources: [{name: web, writeKey: load}]\ndestinations:\n- {name: hook, %s webhooks: [{url: '%s/hook'}]}\n",
		r.address, data, r.settings, adminToken, r.hook, r.receiver.url)
	require.NoError(r, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const adminToken = "the-token-of-this-test-and-of-no-other"

// patience limits the wait for an event that should happen soon, even on a busy machine.
const patience = time.Minute

// start starts the collector and waits until it is ready.
func (r *rig) start(flags ...string) {
	r.Helper()
	require.NoError(r, r.tryStart(flags...))
}

// tryStart starts the collector. It returns an error if the collector exits before it is ready.
func (r *rig) tryStart(flags ...string) error {
	r.Helper()
	c := r.launch(flags...)
	if err := c.AwaitReady(patience); err != nil {
		return fmt.Errorf("%w: %s", err, tail(c.Log(), 3000))
	}
	return nil
}

// startFull starts the collector with a full queue: it responds but is not ready. If it ends
// before it responds, startFull returns the reason.
func (r *rig) startFull(flags ...string) error {
	r.Helper()
	c := r.launch(flags...)
	r.await("the admin API responds", func() bool { return c.Process.Ended() || r.ask(http.MethodGet, "/ledger", nil, nil) == nil })
	if c.Process.Ended() {
		return errors.New(tail(c.Log(), 3000))
	}
	return nil
}

// launch starts the collector and does not wait until it is ready.
func (r *rig) launch(flags ...string) *harness.Collector {
	r.Helper()
	p, err := startProcess(append([]string{r.binary, "serve", "--config", r.configure()}, flags...), r.env)
	require.NoError(r, err)
	r.collector = collectorAt(r.address)
	r.collector.Process = p
	return r.collector
}

// collectorAt returns a collector that listens at an address.
func collectorAt(address string) *harness.Collector {
	return &harness.Collector{URL: "http://" + address, Token: adminToken}
}

func startProcess(command, env []string) (*harness.Process, error) {
	return harness.Start(command[0], command[1:], func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), env...) })
}

// kill kills the collector with SIGKILL.
func (r *rig) kill() {
	if r.collector != nil {
		r.collector.Kill()
	}
}

// stop stops the collector with SIGTERM.
func (r *rig) stop() {
	r.Helper()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = r.collector.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(patience):
		r.Fatalf("the collector did not end:\n%s", tail(r.collector.Log(), 3000))
	}
}

// begin starts the load and waits until the given number of calls are accepted.
func (r *rig) begin(calls int) {
	r.Helper()
	r.stopLoad = r.load.Start()
	r.progress(calls)
}

// loaded starts a collector with its own disk, and a load. It waits until the given number of calls
// are accepted.
func (r *rig) loaded(calls int) {
	r.Helper()
	r.onDisk("")
	r.start()
	r.begin(calls)
}

// powerCut kills the collector, cuts the power of its disk, and mounts the disk with the remaining
// data.
func (r *rig) powerCut() {
	r.Helper()
	r.disk.Unplug()
	r.kill()
	require.NoError(r, r.disk.PowerCut(disk.LoseSeeded))
}

// sleep waits for a time between least and most. The seed determines the time.
func (r *rig) sleep(least, most time.Duration) {
	time.Sleep(least + time.Duration(r.random.Int64N(int64(most-least)+1)))
}

// await waits until holds returns true.
func (r *rig) await(what string, holds func() bool) {
	r.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("timed out waiting until %s", what)
		}
	}
}

// rises waits until a count reaches the value until. The test fails if the count stops increasing.
func (r *rig) rises(what string, count func() int, until int) {
	r.Helper()
	for have := math.MinInt; have < until; {
		before := have
		r.await(what, func() bool { have = count(); return have > before || have >= until })
	}
}

// progress waits until the given number of additional calls are accepted.
func (r *rig) progress(calls int) {
	r.Helper()
	accepted := func() int { return int(r.load.Sent.Load()) }
	r.rises("more calls are accepted", accepted, accepted()+calls)
}

// delivers waits until the given number of additional calls are delivered.
func (r *rig) delivers(calls int) {
	r.Helper()
	delivered := func() int { return r.receiver.distinct("hook") }
	r.rises("more calls are delivered", delivered, delivered()+calls)
}

// ledger contains the call counts of a destination.
type ledger struct {
	Destination                                          string
	Accepted, Delivered, Failed, Filtered, Pending, Lost int
	Problems                                             []string
}

func (r *rig) ledgers() (all []ledger, err error) {
	var answer struct{ Destinations []ledger }
	err = r.ask(http.MethodGet, "/ledger", nil, &answer)
	return answer.Destinations, err
}

// ask sends a request to the admin API.
func (r *rig) ask(method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return collectorAt(r.address).Ask(ctx, method, path, body, answer)
}

// verify runs the command collector verify, which must succeed.
func (r *rig) verify() {
	r.Helper()
	out, err := r.verifyAt(r.address)
	assert.NoError(r, err, "collector verify: %s", out)
	if err == nil {
		all, err := r.ledgers()
		require.NoError(r, err)
		for _, l := range all {
			assert.True(r, min(l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost) >= 0, "verify accepted a negative count: %+v", l)
		}
	}
}

// verifyAt runs collector verify for the collector at an address, and returns the output.
func (r *rig) verifyAt(address string) (string, error) {
	cmd := exec.Command(r.binary, "verify", "--url", "http://"+address)
	cmd.Env = append(os.Environ(), "COLLECTOR_TOKEN="+adminToken)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// settle waits until at most the given number of calls are pending. It returns the ledgers.
func (r *rig) settle(most int) (all []ledger) {
	r.Helper()
	r.rises("less is pending", func() int {
		now, err := r.ledgers()
		if err != nil {
			return math.MinInt
		}
		all = now
		pending := 0
		for _, l := range all {
			pending += l.Pending
		}
		return -pending
	}, -most)
	return all
}

// finish stops the load and waits until all calls are delivered. It then checks each call that
// received a 200 response: for each destination, the call must have arrived, be listed as failed, or
// be reported as lost. The collector's own verification must also succeed.
func (r *rig) finish() {
	r.Helper()
	r.stopLoad(patience)
	all := r.settle(0)
	r.verify()
	for _, l := range all {
		r.judge(l)
	}
	r.result.acked += int(r.load.Sent.Load())
	r.result.delivered += r.receiver.total()
	r.result.repeated += r.receiver.repeats()
}

func (r *rig) judge(l ledger) {
	r.Helper()
	var missing []string
	sent := map[string]bool{}
	acked, fresh, expected := 0, 0, 0 // number of accepted calls; of calls that may be lost; of lost calls
	for c := range r.load.All {
		id, at := hex.EncodeToString(c.ID[:]), c.Answered
		sent[id] = true
		if at.IsZero() {
			continue
		}
		acked++
		lossAllowed := at.After(r.mayLose) && at.Before(r.mayLoseUntil)
		if lossAllowed {
			fresh++
		}
		switch {
		case r.receiver.times(l.Destination, id) > 0:
		case lossAllowed:
			expected++
		default:
			missing = append(missing, id)
		}
	}
	if expected > 0 {
		r.result.note("%d calls of the permitted period lost", expected)
	}
	missing = r.notFailed(l.Destination, missing)
	unknown := len(sent) - acked + expected
	r.result.lost += len(missing) + expected
	r.result.reported += l.Lost
	assert.LessOrEqual(r, len(missing), l.Lost, "%s: accepted calls are missing and not reported as lost, among them %v: %+v", l.Destination, first(missing, 5), l)
	assert.LessOrEqual(r, l.Lost, len(missing)+unknown, "%s: delivered calls are reported as lost: %+v", l.Destination, l)
	assert.GreaterOrEqual(r, l.Accepted, acked-fresh, "%s", l.Destination)
	if !r.mayStoreTwice {
		assert.LessOrEqual(r, l.Accepted, len(sent)+r.own, "%s: a call was stored more than once", l.Destination)
	}
	var foreign []string
	for id := range r.receiver.all(l.Destination) {
		if !sent[id] {
			foreign = append(foreign, id)
		}
	}
	assert.LessOrEqual(r, len(foreign), r.own, "%s received calls that were not sent: %v", l.Destination, foreign)
}

// notFailed returns the calls in ids that the destination does not list as failed.
func (r *rig) notFailed(destination string, ids []string) (others []string) {
	r.Helper()
	for len(ids) > 0 {
		n := min(50, len(ids))
		var answer struct{ Calls []struct{ MessageID string } }
		query := url.Values{"messageId": ids[:n], "limit": {"100"}}
		require.NoError(r, r.ask(http.MethodGet, "/destinations/"+destination+"/failed?"+query.Encode(), nil, &answer))
		failed := map[string]bool{}
		for _, c := range answer.Calls {
			failed[c.MessageID] = true
		}
		for _, id := range ids[:n] {
			if !failed[id] {
				others = append(others, id)
			}
		}
		ids = ids[n:]
	}
	return others
}

// withoutRefusals removes log entries about refused batches, so that the cause of a failure is easier
// to find.
func withoutRefusals(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `msg="a batch was refused`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// tail returns the last n bytes of a program's output, or the part about its crash.
func tail(text string, n int) string {
	for _, crash := range []string{"\npanic: ", "\nfatal error: "} {
		if at := strings.Index(text, crash); at >= 0 {
			return text[at:min(at+n, len(text))]
		}
	}
	if len(text) > n {
		text = "…" + text[len(text)-n:]
	}
	return strings.TrimSpace(text)
}

func first(all []string, n int) []string { return all[:min(n, len(all))] }
