package jetstream_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// filled returns the directory of a journal with delivered, pending, retried and failed
// calls.
func filled(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir})
	r := attach(t, j, "d")
	for i := range 30 {
		appendCalls(t, j, "web", fmt.Sprint("a", i), 10)
	}
	work(t, r, 100, mixed)
	ok(t, j.Close())
	return dir
}

// copyOf returns a copy of the directory of a closed journal.
func copyOf(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	ok(t, jetstream.CopyDir(to, dir))
	return to
}

func flip(t testing.TB, path string, at float64) {
	t.Helper()
	data, err := os.ReadFile(path)
	ok(t, err)
	data[int(float64(len(data)-1)*at)] ^= 0x10
	ok(t, os.WriteFile(path, data, 0o600))
}

func streamFile(t testing.TB, dir, stream, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", "analytics-"+stream, pattern))
	ok(t, err)
	if len(found) == 0 {
		t.Fatalf("there is no %s of %s", pattern, stream)
	}
	return found[0]
}

// damages contains the kinds of corruption to test.
var damages = map[string]struct {
	do   func(t *testing.T, dir string)
	want []string // strings that the error contains
	loss bool     // whether the journal opens if the loss is accepted
}{
	"description of CALLS": {
		func(t *testing.T, dir string) { flip(t, streamFile(t, dir, "CALLS", "meta.inf"), 0.5) },
		[]string{"CALLS", "meta.inf", "--accept-loss"}, true,
	},
	"description of OUTCOMES": {
		func(t *testing.T, dir string) { flip(t, streamFile(t, dir, "OUTCOMES", "meta.inf"), 0.5) },
		[]string{"OUTCOMES", "meta.inf", "--accept-loss"}, true,
	},
	"missing stream": {
		func(t *testing.T, dir string) {
			ok(t, os.RemoveAll(filepath.Dir(streamFile(t, dir, "STATE", "meta.inf"))))
		},
		[]string{"STATE", "--accept-loss"}, true,
	},
	"missing marker": {
		func(t *testing.T, dir string) { ok(t, os.Remove(filepath.Join(dir, "journal.json"))) },
		[]string{"journal.json", "--accept-loss"}, true,
	},
	"marker": {
		func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "journal.json"), 0) },
		[]string{"journal.json", "--accept-loss"}, true,
	},
	"missing block": {
		func(t *testing.T, dir string) { ok(t, os.Remove(streamFile(t, dir, "CALLS", "msgs/1.blk"))) },
		[]string{"CALLS", "--accept-loss"}, true,
	},
	"calls": {
		func(t *testing.T, dir string) { flip(t, streamFile(t, dir, "CALLS", "msgs/1.blk"), 0.5) },
		[]string{"CALLS", "--accept-loss"}, true,
	},
	"first calls": {
		func(t *testing.T, dir string) { flip(t, streamFile(t, dir, "CALLS", "msgs/1.blk"), 0.01) },
		[]string{"CALLS", "--accept-loss"}, true,
	},
	"last calls": {
		func(t *testing.T, dir string) { flip(t, streamFile(t, dir, "CALLS", "msgs/1.blk"), 0.999) },
		[]string{"CALLS", "--accept-loss"}, true,
	},
	"outcomes": {
		func(t *testing.T, dir string) { flip(t, streamFile(t, dir, "OUTCOMES", "msgs/1.blk"), 0.5) },
		[]string{"OUTCOMES", "--accept-loss"}, true,
	},
}

func TestDamagedStoreIsRejectedWithInstructions(t *testing.T) {
	undamaged := filled(t)
	for name, damage := range damages {
		for _, stopped := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stopped %v", name, stopped), func(t *testing.T) {
				t.Parallel()
				dir := copyOf(t, undamaged)
				if !stopped {
					asKilled(t, dir)
				}
				damage.do(t, dir)
				before := contents(t, dir)
				j, err := jetstream.Open(within(t), jetstream.Options{Dir: dir})
				if err == nil {
					_ = j.Close()
				}
				if !errors.Is(err, record.ErrDamaged) {
					t.Fatalf("Open: %v, want ErrDamaged", err)
				}
				for _, want := range damage.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error does not contain %s: %v", want, err)
					}
				}
				after := contents(t, dir)
				for file, was := range before {
					if now := after[file]; now != was && !isKept(t, dir, was) {
						t.Errorf("%s was changed, and not kept as it was", file)
					}
				}
				if damage.loss {
					checkUsable(t, dir)
				}
			})
		}
	}
}

// isKept reports whether a corrupted file is unchanged. After a kill, corruption at the end of a
// file can be an interrupted write, which the journal removes.
func isKept(t *testing.T, dir, was string) bool {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(dir, "damaged", "*", "*", "*"))
	ok(t, err)
	return slices.ContainsFunc(kept, func(file string) bool {
		data, err := os.ReadFile(file)
		ok(t, err)
		return string(data) == was
	})
}

// asKilled changes a closed directory so that it looks as if the process had been killed.
func asKilled(t *testing.T, dir string) {
	t.Helper()
	ok(t, os.Remove(filepath.Join(dir, "journal.clean")))
	for _, stream := range []string{"CALLS", "OUTCOMES"} {
		ok(t, os.Remove(streamFile(t, dir, stream, "msgs/index.db")))
	}
}

// contents returns all stored data, except data that is restored from OUTCOMES after a kill.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"journal.json", "jetstream/*/streams/*/msgs/*.blk", "jetstream/*/streams/*/meta.*"} {
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		ok(t, err)
		for _, file := range files {
			if strings.Contains(file, "RETRY") {
				continue
			}
			data, err := os.ReadFile(file)
			ok(t, err)
			all[file] = string(data)
		}
	}
	return all
}

// checkUsable opens a corrupted store with accepted loss, and uses it.
func checkUsable(t *testing.T, dir string) {
	t.Helper()
	j := open(t, jetstream.Options{Dir: dir, AcceptLoss: true})
	attach(t, j, "d") // the attachment may also be lost
	left := verified(t, j, "d")
	if left.Accepted > 300 {
		t.Errorf("%d of 300 calls are left", left.Accepted)
	}
	t.Logf("left: %s", sums(left))
	ok(t, j.Close())
	j = open(t, jetstream.Options{Dir: dir}) // AcceptLoss is not needed, because the loss is now recorded
	appendCalls(t, j, "web", "after", 10)
	work(t, attach(t, j, "d"), int(left.Pending)+10, delivered)
	if after := verified(t, j, "d"); after.Pending != 0 || after.Accepted != left.Accepted+10 {
		t.Errorf("%s before, %s after", sums(left), sums(after))
	}
}

// TestRetriesAreRestoredAfterAKill empties RETRY, as a power cut can do. The calls must remain
// pending and be retried.
func TestRetriesAreRestoredAfterAKill(t *testing.T) {
	undamaged := filled(t)
	asKilled(t, undamaged)
	for name, damage := range map[string]func(t *testing.T, msgs string){
		"no files":          func(t *testing.T, msgs string) { ok(t, os.RemoveAll(msgs)) },
		"empty blocks":      func(t *testing.T, msgs string) { eachBlock(t, msgs, func(f string) { ok(t, os.Truncate(f, 0)) }) },
		"unreadable blocks": func(t *testing.T, msgs string) { eachBlock(t, msgs, func(f string) { flip(t, f, 0.5) }) },
		"complete":          func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyOf(t, undamaged)
			damage(t, filepath.Dir(streamFile(t, dir, "RETRY", "msgs/*.blk")))
			j := open(t, jetstream.Options{Dir: dir})
			before := verified(t, j, "d")
			work(t, attach(t, j, "d"), int(before.Pending), delivered)
			wantSums(t, verified(t, j, "d"), fmt.Sprintf("%d = %d + %d + %d + 0", before.Accepted, before.Delivered+before.Pending, before.Failed, before.Filtered))
		})
	}
}

func eachBlock(t *testing.T, msgs string, do func(file string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(msgs, "*.blk"))
	ok(t, err)
	for _, f := range files {
		do(f)
	}
}
