package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

// scenario is a test with one kind of fault.
type scenario struct {
	name   string
	what   string // a description for the report
	attack func(r *rig)
	full   bool // the scenario takes long, or resembles a test in collector/e2e, so CI does not run it
	// notYet is the reason why the scenario still fails. If it is set, CI does not run the scenario.
	notYet string
}

var scenarios = []scenario{
	{name: "kill", full: true, what: "`kill -9`, three times per round", attack: kills},
	{name: "power-cut", what: "power cut, twice per round", attack: powerCuts},
	{name: "failed-writes", what: "1 to 3 writes fail (EIO), the disk recovers, then a power cut", attack: failed(disk.Write, false)},
	{name: "failed-writes-stop", what: "1 to 3 writes fail, the disk recovers, then a normal stop and a cold cache", attack: failed(disk.Write, true)},
	{name: "failed-flushes", what: "1 to 3 flushes fail, then a power cut", attack: failed(disk.Sync, false)},
	{name: "failed-flushes-stop", what: "1 to 3 flushes fail, then a normal stop and a cold cache", attack: failed(disk.Sync, true)},
	{name: "full-disk", what: "the disk is full for 3 to 6 s", attack: fullDisk},
	{name: "read-only-disk", what: "the file system is read-only for 3 to 6 s, then mounted again", attack: readOnlyDisk},
	{name: "torn-record", what: "`kill -9`, with garbage at the end of a file", attack: torn},
	{name: "bit-flip", what: "one bit of one file changed, then `--accept-loss`", attack: bitFlip},
	{name: "bit-flip-first-block", what: "one bit of the record that attaches a destination changed, then `--accept-loss`", attack: firstBlock},
	{name: "damaged-list", what: "one bit of a stored audience or deletion request changed, then `--accept-loss`", attack: damagedList},
	{name: "vanished-file", what: "a file of calls, settings or state truncated to zero or deleted", attack: vanished},
	{name: "old-damage-sync-1s", what: "`sync: 1s`: one bit changed in data stored seconds before", attack: oldDamage},
	{name: "power-cut-sync-1s", what: "`sync: 1s`: power cut", attack: lazyPowerCut},
	{name: "killed-replays", what: "`kill -9` three times while failed calls are replayed", attack: replays},
	{name: "replayed-notices", what: "refused notices of audiences and traits replayed after newer lists, `kill -9` twice", attack: replayedNotices},
	{name: "retry-after", full: true, what: "`kill -9` or power cut, three times during a pause requested with `Retry-After`", attack: pauses},
	{name: "ordered-outage", what: "`order: user`: receiver down, collector killed, then 15 % of requests fail", attack: orderedOutage},
	{name: "queue-limit", what: "`limits.queue` reached, `kill -9` three times", attack: queueLimit},
	{name: "clock-back", full: true, what: "clock steps back by an hour, a day or two years while calls wait for a retry", attack: clockBack},
	{name: "cluster-leader-killed", full: true, what: "cluster, `sync_interval: always`: leader of CALLS killed twice", attack: leaderKilled},
	{name: "cluster-power-cut", full: true, what: "cluster, `sync_interval: always`: power cut of one server, then of all", attack: clusterPowerCuts},
	{name: "cluster-bit-flip", full: true, what: "cluster, `sync_interval: always`: one bit changed on one server, the others paused in turn, power cut of all", attack: minorityDamaged(false)},
	{name: "cluster-truncated", full: true, what: "cluster, `sync_interval: always`: file truncated on one server, the others paused in turn, power cut of all", attack: minorityDamaged(true)},
	{name: "cluster-replicas", full: true, what: "cluster: one server without JetStream, then another hangs or has a changed bit in its metadata; both are reported", attack: replicasReported},
	{name: "cluster-node-cut-off", full: true, what: "cluster: a server cut off for 2 to 6 s, in one or both directions", attack: nodeCutOff},
	{name: "cluster-collector-cut-off", full: true, what: "cluster: a collector cut off from the servers", attack: collectorCutOff},
	{name: "cluster-ordered-outage", full: true, what: "cluster, `order: user`: receiver down, delivering collector cut off or killed, then 15 % of requests fail", attack: clusterOrderedOutage},
	{name: "cluster-started-together", full: true, what: "new cluster: three collectors started simultaneously", attack: startedTogether},
	{name: "cluster-lazy-refused", full: true, what: "cluster, one server without `sync_interval: always`: refused, then `--accept-lazy-sync`", attack: lazyRefused},
}

// TestScenarios runs all scenarios. NEMESIS_ROUNDS is the number of rounds of each scenario (default
// 1), NEMESIS_SEED is the first seed (default 1), and NEMESIS_REPORT is a file for the results. To
// repeat a failed round, use its seed:
//
//	NEMESIS_SEED=<seed> go test -run 'TestScenarios/<scenario>$' ./nemesis
func TestScenarios(t *testing.T) {
	if err := possible(); err != nil {
		t.Skip(err)
	}
	rounds, seed := number(t, "NEMESIS_ROUNDS", 1), number(t, "NEMESIS_SEED", 1)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("NEMESIS_ROUNDS") == "" && (s.full || s.notYet != "") {
				t.Skip("runs only with NEMESIS_ROUNDS: ", s.notYet)
			}
			for i := range rounds {
				t.Run(fmt.Sprint("seed=", seed+i), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, uint64(seed+i))
					begin := time.Now()
					defer func() { report.add(s.what, t.Failed(), r.result, time.Since(begin)) }()
					s.attack(r)
					t.Logf("%v; %s", r.result, time.Since(begin).Round(time.Millisecond))
				})
			}
		})
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	if os.Getenv(variable) == "" {
		return otherwise
	}
	n, err := strconv.Atoi(os.Getenv(variable))
	require.NoError(t, err, variable)
	return n
}

func possible() error {
	if testing.Short() {
		return errors.New("scenarios take minutes")
	}
	return disk.Supported()
}

// result contains the results of one round, or of all rounds of a scenario.
type result struct {
	acked     int // number of calls with a 200 response
	lost      int // number of acked calls, for each destination, that were neither delivered nor listed as failed
	reported  int // number of calls that the collector reported as lost
	delivered int
	repeated  int // number of deliveries of calls that had already been delivered
	notes     []string
}

func (r *result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r result) String() string {
	return fmt.Sprintf("%d accepted calls; %d deliveries, %d of them duplicates; %d lost, %d reported as lost; %s",
		r.acked, r.delivered, r.repeated, r.lost, r.reported, strings.Join(r.notes, "; "))
}

// report contains the results of all scenarios.
var report reports

type reports struct {
	mu   sync.Mutex // guards rows
	rows []*row
}

type row struct {
	place          int
	name           string
	rounds, failed int
	total          result
	took           time.Duration
}

func (r *reports) add(name string, failed bool, result result, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.rows, func(row *row) bool { return row.name == name })
	if i < 0 {
		i = len(r.rows)
		place := slices.IndexFunc(scenarios, func(s scenario) bool { return s.what == name })
		r.rows = append(r.rows, &row{place: place, name: name})
	}
	row := r.rows[i]
	row.rounds++
	if failed {
		row.failed++
	}
	row.took += took
	row.total.acked += result.acked
	row.total.lost += result.lost
	row.total.reported += result.reported
	row.total.delivered += result.delivered
	row.total.repeated += result.repeated
}

func (r *reports) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| scenario | rounds | failed rounds | calls answered with 200 | lost | reported as lost | deliveries | repeated | seconds per round |")
	fmt.Fprintln(&b, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	slices.SortFunc(r.rows, func(a, b *row) int { return a.place - b.place })
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %.1f |\n", row.name, row.rounds, row.failed,
			row.total.acked, row.total.lost, row.total.reported, row.total.delivered, row.total.repeated, row.took.Seconds()/float64(row.rounds))
	}
	return b.String()
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if path := os.Getenv("NEMESIS_REPORT"); path != "" {
		if err := os.WriteFile(path, []byte(report.String()), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(binaries.dir)
	os.Exit(code)
}

// binaries contains the tested programs. Each is built once.
var binaries programs

type programs struct {
	mu   sync.Mutex
	dir  string
	made map[string]string // paths of the built programs, keyed by name
}

// collector returns the path of the command collector, built like a release.
func (p *programs) collector(t *testing.T) string {
	t.Helper()
	return p.build(t, "collector", collectorPackage)
}

// natsServer returns the path of the NATS server. Its version is the one in the collector's go.mod.
func (p *programs) natsServer(t *testing.T) string {
	t.Helper()
	return p.build(t, "nats-server", "github.com/nats-io/nats-server/v2")
}

const collectorPackage = "github.com/seed-45eadc4a/analytics-go/mockserver/collector"

func (p *programs) build(t *testing.T, name string, args ...string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made[name] != "" {
		return p.made[name]
	}
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "nemesis")
		require.NoError(t, err)
		p.dir, p.made = dir, map[string]string{}
	}
	path := filepath.Join(p.dir, name)
	cmd := exec.Command("go", append([]string{"build", "-o", path}, args...)...)
	cmd.Dir = filepath.Join("..", "mockserver", "collector") // this module's go.mod contains the versions
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "building %s: %s", name, out)
	p.made[name] = path
	return path
}
