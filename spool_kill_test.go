package analytics_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// killEnv is an environment variable. If it is set, the test binary runs as the process to kill. The
// value is the URL of the collector.
const killEnv = "ANALYTICS_TEST_KILLED"

// killsEnv is an environment variable with the number of kills. The default is 5.
const killsEnv = "ANALYTICS_TEST_KILLS"

// TestSpoolVictim makes calls until its process is killed. It prints the ID of each call that
// returned nil.
func TestSpoolVictim(t *testing.T) {
	url := os.Getenv(killEnv)
	if url == "" {
		t.Skip("this is the process that TestSpoolSurvivesKill kills")
	}
	client, err := analytics.NewWithConfig("key", analytics.Config{
		Endpoint: url, Spool: os.Getenv(killEnv + "_DIR"), FlushAt: 20, FlushAfter: 5 * time.Millisecond, MaxBytes: 256 << 10,
		SpoolMaxBytes: 1 << 20, SpoolSync: os.Getenv(killEnv+"_SYNC") != "", WhenFull: analytics.Block, // a small limit, so that the client reuses many segments
	})
	require.NoError(t, err)
	client.Stats()      // Stats opens the spool
	fmt.Println("open") // printed before the first call, because a call waits if the spool is full
	var out sync.Mutex
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
				if err := client.Track(&analytics.Track{Event: "e", UserId: "u", Message: analytics.Message{MessageId: id}}); err != nil {
					fmt.Println("error", err)
					return
				}
				out.Lock()
				fmt.Println("id", id)
				out.Unlock()
				if i%16 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	group.Wait()
}

// Each call that returned nil reaches the collector in spite of kills and outages, and no call
// reaches it with two IDs.
func TestSpoolSurvivesKill(t *testing.T) {
	kills := 5
	if s := os.Getenv(killsEnv); s != "" {
		var err error
		kills, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	rnd := rand.New(rand.NewPCG(seed, 1))

	store := mockserver.RunT(t, mockserver.Config{KeepCalls: 1 << 20})
	setAway := func(away bool) {
		store.ClearFaults()
		if away {
			store.Fail(mockserver.Fault{Reset: true, Times: mockserver.Always})
		}
	}

	dir := t.TempDir()
	returned := map[string]bool{}
	for n := 0; n < kills || len(returned) == 0; n++ { // on a slow machine, the first kill may come before the first call
		setAway(rnd.IntN(3) == 0)
		comes := rnd.IntN(2) == 0
		synced := rnd.IntN(3) == 0
		for _, id := range killOne(t, store.URL, dir, synced, time.Duration(rnd.IntN(150))*time.Millisecond, func() {
			setAway(!comes)
		}) {
			require.False(t, returned[id])
			returned[id] = true
		}
	}
	setAway(false)
	last, err := analytics.NewWithConfig("key", analytics.Config{Endpoint: store.URL, Spool: dir})
	require.NoError(t, err)
	require.NoError(t, last.Flush(shortContext(t)))
	require.NoError(t, last.Close())
	s := last.Stats()
	requireSum(t, s)
	require.Zero(t, s.Dropped.Total())
	require.Empty(t, segments(t, dir))

	stored := map[string]bool{}
	for _, c := range store.Calls() {
		require.False(t, stored[c.ID], "the collector stored %s twice", c.ID)
		stored[c.ID] = true
	}
	for id := range returned {
		require.True(t, stored[id], "call %s returned nil, and is lost", id)
	}
	t.Logf("%d calls returned nil, %d were stored, %d recovered at last", len(returned), len(stored), s.Recovered)
}

// killOne starts the victim, waits until the victim has opened its spool, and kills it after the given
// time. It calls midway before the kill. It returns the IDs that the victim has printed.
func killOne(t *testing.T, url, dir string, synced bool, after time.Duration, midway func()) (ids []string) {
	t.Helper()
	victim := exec.Command(os.Args[0], "-test.run=^TestSpoolVictim$", "-test.v")
	victim.Env = append(os.Environ(), killEnv+"="+url, killEnv+"_DIR="+dir)
	if synced {
		victim.Env = append(victim.Env, killEnv+"_SYNC=1")
	}
	victim.Stderr = os.Stderr
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	defer func() { _ = victim.Wait() }()
	started := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		kind, id, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		switch string(kind) {
		case "error":
			t.Errorf("the victim: %s", id)
		case "open":
			started = true
			time.AfterFunc(after/2, func() {
				midway()
				time.AfterFunc(after/2, func() { _ = victim.Process.Kill() })
			})
		case "id":
			ids = append(ids, string(id))
		}
	}
	require.True(t, started, "the victim did not open its spool")
	if n := len(ids); n > 0 {
		ids = ids[:n-1] // drop the last line, which may be incomplete
	}
	return ids
}
