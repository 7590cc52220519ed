package jetstream_test

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// times returns the number of repetitions: from the environment, or n.
func times(env string, n int) int {
	if v, err := strconv.Atoi(os.Getenv(env)); err == nil && v > 0 {
		return v
	}
	return n
}

// TestKilledProcessesLoseNothing kills processes at random times under load. JOURNAL_KILLS=20
// selects the full length.
func TestKilledProcessesLoseNothing(t *testing.T) {
	t.Parallel()
	kills := times("JOURNAL_KILLS", 3)
	random := rand.New(rand.NewSource(int64(kills)))
	dir, tally := t.TempDir(), newTally(t)
	config := childConfig{Options: jetstream.Options{Dir: dir, MaxBytes: 256 << 10}, Trim: 20 * time.Millisecond, Senders: 4, Batch: 10, Rate: 5 * time.Millisecond, Slow: time.Millisecond}
	for i := range kills {
		config.Name, config.Forget = fmt.Sprint("k", i), i%2 == 0
		startChild(t, tally, config).killAfter(time.Duration(200+random.Intn(800)) * time.Millisecond)
	}
	config.Name = "last"
	startChild(t, tally, config).stop(t)
	repeats := tally.check(t)
	t.Logf("%d calls accepted, %d kills, %d repeats", len(tally.accepted), kills, repeats)
	// A kill can only cause duplicates of entries in progress: eight entries of at most 128 calls.
	if most := kills * 8 * 128; repeats > most {
		t.Errorf("%d deliveries were repeated, want at most %d", repeats, most)
	}
}
