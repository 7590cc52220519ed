package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The system clock cannot be changed for a single process. So the collector is built with a
// modified package time. Its function Now subtracts a number of seconds, which it reads from a file
// every 20 ms. Only the wall clock changes. The monotonic clock of timers continues, as it does
// when the clock of a machine is set.
const (
	now        = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	steppedNow = now + "\tsec += nemesisStep.Load()\n"
)

const stepSource = `package time

import (
	"sync/atomic"
	"syscall"
)

var nemesisStep atomic.Int64

// The runtime calls Now on stacks where nothing may wait: another goroutine reads.
func init() {
	path, ok := syscall.Getenv("NEMESIS_CLOCK")
	if !ok {
		return
	}
	nemesisRead(path)
	go func() {
		for {
			Sleep(20 * Millisecond)
			nemesisRead(path)
		}
	}()
}

func nemesisRead(path string) {
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	var text [32]byte
	n, _ := syscall.Read(file, text[:])
	syscall.Close(file)
	back := int64(0)
	for _, c := range text[:max(n, 0)] {
		back = back*10 + int64(c-'0')
	}
	nemesisStep.Store(-back)
}
`

// withClock returns the path of a collector command with the modified clock.
func (p *programs) withClock(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), now), "package time of this Go version reads the clock differently")
	text = []byte(strings.Replace(string(text), now, steppedNow, 1))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "time.go"), text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "step.go"), []byte(stepSource), 0o600))
	overlay := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, []byte(`{"Replace": {
		"`+filepath.Join(source, "time.go")+`": "`+filepath.Join(dir, "time.go")+`",
		"`+filepath.Join(source, "nemesis_step.go")+`": "`+filepath.Join(dir, "step.go")+`"}}`), 0o600))
	return p.build(t, "collector-with-clock", "-overlay", overlay, collectorPackage)
}

// steps contains the possible changes of the clock. The seed chooses one.
var steps = []time.Duration{time.Hour, 24 * time.Hour, 2 * 365 * 24 * time.Hour}

// clockBack sets the clock back while calls wait for their next attempt. The collector is running or
// stopped. The calls must be delivered as early as without the change.
func clockBack(r *rig) {
	r.binary = binaries.withClock(r.T)
	clock := filepath.Join(r.dir, "clock")
	set := func(back time.Duration) {
		next := clock + ".new"
		require.NoError(r, os.WriteFile(next, strconv.AppendInt(nil, int64(back/time.Second), 10), 0o600))
		require.NoError(r, os.Rename(next, clock))
	}
	set(0)
	r.env = append(r.env, "NEMESIS_CLOCK="+clock)
	r.onDisk("")
	r.receiver.answer.Store(http.StatusServiceUnavailable)
	r.start()
	r.begin(500)
	r.sleep(time.Second, 2*time.Second)
	step := steps[r.seed%3]
	restart := r.seed/3%2 == 0
	r.result.note("back by %v, restarted: %v", step, restart)
	if restart {
		r.kill()
	}
	set(step)
	if restart {
		r.start()
	}
	r.progress(200)
	r.receiver.answer.Store(0)
	r.finish()
}
