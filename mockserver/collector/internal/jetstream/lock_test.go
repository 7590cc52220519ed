package jetstream_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
)

func TestTwoProcessesCannotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir})
	_, err := jetstream.Open(within(t), jetstream.Options{Dir: dir})
	if !errors.Is(err, datadir.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("second journal in this process: %v", err)
	}
	ok(t, j.Close())

	p := startChild(t, newTally(t), childConfig{Name: "a", Options: jetstream.Options{Dir: dir}})
	_, err = jetstream.Open(within(t), jetstream.Options{Dir: dir})
	if !errors.Is(err, datadir.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", p.cmd.Process.Pid)) {
		t.Fatalf("journal of another process: %v", err)
	}
	ok(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	ok(t, open(t, jetstream.Options{Dir: dir}).Close()) // the system released the lock of the killed process
}
