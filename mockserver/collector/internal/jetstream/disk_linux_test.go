package jetstream_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// smallDisk mounts a small file system in memory. It requires root.
func smallDisk(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system requires root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a file system: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// A trouble is a reversible disk failure.
type trouble struct {
	dir    string
	make   func()
	repair func()
	full   bool // whether the disk is full
}

// fullDisk is a disk with space for a few batches.
func fullDisk(t *testing.T) trouble {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	return trouble{
		dir: dir, full: true,
		make: func() {
			command(t, "sh", "-c", "dd if=/dev/zero of="+ballast+" bs=64k 2>/dev/null; truncate -s -256k "+ballast)
		},
		repair: func() { ok(t, os.Remove(ballast)) },
	}
}

// readOnlyDisk makes the disk read-only, as ext4 does after an error. The repair mounts the disk
// again.
func readOnlyDisk(t *testing.T) trouble {
	image, dir := newDisk(t)
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", dir).Output()
	ok(t, err)
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skipf("cannot make a file system read-only: %v", err)
	}
	return trouble{
		dir:  dir,
		make: func() { ok(t, os.WriteFile(trigger, []byte("1"), 0)) },
		repair: func() {
			command(t, "umount", "-l", dir)
			command(t, "cp", "--sparse=always", image, image+".2") // a new device, which does not contain the recorded error
			command(t, "mount", "-o", "loop", image+".2", dir)
		},
	}
}

// TestDiskFailures lets a disk become full or read-only and recover, in one process.
func TestDiskFailures(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]func(*testing.T) trouble{"full": fullDisk, "read-only": readOnlyDisk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, log := disk(t), newLog(t)
			options := jetstream.Options{Dir: filepath.Join(disk.dir, "data"), Logger: slog.New(slog.NewTextHandler(log, nil))}
			j := open(t, options)
			r := attach(t, j, "d")
			s := newSender(j)
			for range 10 {
				ok(t, s.send(t))
			}
			work(t, r, 50, delivered)

			disk.make()
			refused(t, s, disk.full)
			if _, err := j.Verify(within(t)); (err == nil) != disk.full || !disk.full && !strings.Contains(err.Error(), "read-only file system") {
				t.Errorf("verifying: %v", err)
			}
			disk.repair()
			s.resume(t)
			ok(t, j.Ready(within(t)))
			work(t, r, int(ledgerOf(t, j, "d").Pending), delivered)
			l := verified(t, j, "d")
			if l.Delivered < int64(len(s.accepted)) || l.Pending != 0 {
				t.Errorf("%d calls were accepted: %s", len(s.accepted), sums(l))
			}
			for _, line := range []string{"new calls are refused until it is", "the store is writable again"} {
				if log.count(line) != 1 {
					t.Errorf("%q was logged %d times, want once", line, log.count(line))
				}
			}
			ok(t, j.Close())
			wantSums(t, verified(t, open(t, options), "d"), sums(l))
		})
	}
}

// refused sends until calls are refused, and checks the error.
func refused(t *testing.T, s *sender, full bool) {
	t.Helper()
	err := s.fill(t)
	if errors.Is(err, syscall.ENOSPC) != full || errors.Is(err, journal.ErrFull) {
		t.Errorf("refused with: %v", err)
	}
	if err := s.journal.Ready(within(t)); err == nil {
		t.Error("the journal is ready")
	}
	if s.send(t) == nil {
		t.Error("the next batch is accepted")
	}
}

// TestFullDiskIsDrained fills a disk with pending calls. Each call must be delivered once, and new
// calls must be rejected until there is space.
func TestFullDiskIsDrained(t *testing.T) {
	t.Parallel()
	disk := fullDisk(t)
	dir := filepath.Join(disk.dir, "data")
	j := open(t, jetstream.Options{Dir: dir})
	r := attach(t, j, "d")
	s := newSender(j)
	for range 200 {
		ok(t, s.send(t))
	}
	disk.make()
	_ = s.fill(t)
	delivered := map[string]int{}
	for ledgerOf(t, j, "d").Pending > 0 {
		l := next(t, r)
		result := journal.Result{RetryAt: time.Now()}
		for n, c := range l.Entry().Calls {
			state := tracking.StateDelivered
			if n%4 == 0 && l.Entry().Attempt == 1 {
				state = tracking.StatePending
			} else {
				delivered[c.ID]++
			}
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: state})
		}
		ok(t, l.Finish(within(t), result))
	}
	for id := range s.accepted {
		if delivered[id] != 1 {
			t.Errorf("%s was delivered %d times", id, delivered[id])
		}
	}
	if err := s.send(t); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is still full, and Append returned: %v", err)
	}
	verified(t, j, "d")
	disk.repair()
	s.resume(t)
	ok(t, j.Ready(within(t)))
}

// TestNothingIsLeasedWhileStoreIsReadOnly makes a disk read-only during deliveries. Entries in
// progress are finished when the disk recovers. Until then, nothing else may be leased. No call
// with a known result may be leased again, whether the result was stored or not.
func TestNothingIsLeasedWhileStoreIsReadOnly(t *testing.T) {
	t.Parallel()
	disk, log := readOnlyDisk(t), newLog(t)
	j := open(t, jetstream.Options{Dir: filepath.Join(disk.dir, "data"), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r := attach(t, j, "d")
	for i := range 40 {
		appendCalls(t, j, "web", fmt.Sprint("m", i), 100)
	}
	ctx, stop := contextUntil(t, time.Now().Add(3*patience))
	defer stop()
	given, err := r.Next(ctx, journal.Want{}) // this lease is released while the store is read-only
	ok(t, err)
	var mu sync.Mutex // guards leased and ended
	leased, ended := map[string]int{}, 0
	var readOnly sync.Once
	work := func() {
		for {
			l, err := r.Next(ctx, journal.Want{})
			if err != nil {
				return
			}
			if err := j.Ready(t.Context()); l.Entry().ID == given.Entry().ID && err != nil {
				t.Errorf("an entry was leased: %v", err)
			}
			mu.Lock()
			for _, c := range l.Entry().Calls {
				leased[c.ID]++
			}
			if len(leased) == 1000 {
				readOnly.Do(disk.make)
			}
			mu.Unlock()
			result := journal.Result{Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
			for i := range result.Outcomes {
				result.Outcomes[i].State = tracking.StateDelivered
			}
			if err := l.Finish(ctx, result); err != nil {
				t.Error(err)
			}
			mu.Lock()
			if ended += len(result.Outcomes); ended == 4000 {
				stop()
			}
			mu.Unlock()
		}
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(work)
	}
	for j.Ready(ctx) == nil {
		time.Sleep(10 * time.Millisecond)
	}
	given.Return()
	workers.Go(work) // the other workers may be in progress until the disk recovers
	disk.repair()
	workers.Wait()
	for id, n := range leased {
		if n > 1 {
			t.Errorf("%s was leased %d times", id, n)
		}
	}
	if len(leased) != 4000 {
		t.Errorf("%d of 4000 calls were leased; the log:\n%s", len(leased), log.text())
	}
	if log.count("new calls are refused until it is") != 1 {
		t.Error("the disk did not fail")
	}
	wantSums(t, verified(t, j, "d"), "4000 = 4000 + 0 + 0 + 0")
}

// TestCallsAcceptedWhileDiskTurnsReadOnly makes a file system fail while calls are accepted and
// delivered. The file system may report a successful sync without writing all data. After the
// repair, all accepted calls must be present and the collector must continue.
func TestCallsAcceptedWhileDiskTurnsReadOnly(t *testing.T) {
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			disk := readOnlyDisk(t)
			j := open(t, jetstream.Options{Dir: filepath.Join(disk.dir, "data")})
			r := attach(t, j, "d")
			var taken sync.Map // messageIds
			var readOnly atomic.Bool
			var senders sync.WaitGroup
			ctx, stop := contextUntil(t, time.Now().Add(3*patience))
			defer stop()
			senders.Go(func() { deliverAll(ctx, r) })
			sent := make(chan struct{})
			for _, source := range []string{"web", "app"} {
				senders.Go(func() {
					for i := 0; !readOnly.Load(); i++ {
						calls := noise(fmt.Sprint(source, i, "-"), 10, 2000)
						if j.Append(ctx, event.Batch{Source: source, ReceivedAt: time.Now(), Calls: calls}) != nil {
							return
						}
						for _, c := range calls {
							taken.Store(c.ID, true)
						}
						if i == 40+round && source == "web" {
							close(sent)
						}
					}
				})
			}
			select {
			case <-sent:
			case <-ctx.Done():
				t.Fatal("calls are not accepted")
			}
			disk.make()
			readOnly.Store(true)
			await(t, "not ready without a write", func() bool { return j.Ready(ctx) != nil })
			disk.repair()
			await(t, "ready again", func() bool { return j.Ready(ctx) == nil })
			await(t, "all delivered", func() bool { return ledgerOf(t, j, "d").Pending == 0 })
			stop()
			senders.Wait()
			ok(t, j.Seen(within(t), time.Time{}, 1<<30, func(_ string, ids iter.Seq[string]) bool {
				for id := range ids {
					taken.Delete(id)
				}
				return true
			}))
			taken.Range(func(id, _ any) bool { t.Errorf("%s was taken and is gone", id); return true })
			verified(t, j, "d")
		})
	}
}

func deliverAll(ctx context.Context, r journal.Reader) {
	for {
		l, err := r.Next(ctx, journal.Want{})
		if err != nil {
			return
		}
		result := journal.Result{Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
		for i := range result.Outcomes {
			result.Outcomes[i].State = tracking.StateDelivered
		}
		_ = l.Finish(ctx, result) // fails when ctx ends
	}
}

// TestStartOnAFullDisk starts a journal without free space, after a clean stop and after a kill.
// It must deliver the pending calls.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{true, false} {
		t.Run(fmt.Sprintf("stopped %v", stopped), func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t)
			dir := filepath.Join(disk, "data")
			j := open(t, jetstream.Options{Dir: dir})
			attach(t, j, "d")
			for i := range 50 {
				ok(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: noise(fmt.Sprint("m", i), 10, 2000)}))
			}
			ok(t, j.Close())
			if !stopped {
				asKilled(t, dir)
			}
			ballast := filepath.Join(disk, "filler")
			command(t, "sh", "-c", "dd if=/dev/zero of="+ballast+" bs=64k 2>/dev/null; true")
			j = open(t, jetstream.Options{Dir: dir})
			work(t, attach(t, j, "d"), 500, mixed)
			verified(t, j, "d")
			ok(t, os.Remove(ballast))
			await(t, "ready", func() bool { return j.Ready(within(t)) == nil })
			appendCalls(t, j, "web", "later", 10)
		})
	}
}

// TestNewDirectoryOnAFullDisk checks that the error names the cause, because the error of the embedded
// server does not.
func TestNewDirectoryOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	filler := filepath.Join(disk, "filler")
	command(t, "sh", "-c", "dd if=/dev/zero of="+filler+" bs=4k 2>/dev/null; truncate -s -40k "+filler) // room for the first files
	dir := filepath.Join(disk, "data")
	j, err := jetstream.Open(within(t), jetstream.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_ = j.Close()
	}
	if want := "the disk with " + dir + " is full: free space on it: journal: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want the prefix %q", err, want)
	}
}

// onLine is a log writer that calls do once, for the first line that contains a text.
type onLine struct {
	*logged
	text string
	do   func()
	once sync.Once
}

func (l *onLine) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		l.once.Do(l.do)
	}
	return l.logged.Write(line)
}

// TestStartReleasesTheBallast fills the disk after the embedded server has started. The next step
// of the start must release the ballast.
func TestStartReleasesTheBallast(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, o *jetstream.Options){
		"for the ledger": func(t *testing.T, o *jetstream.Options) {
			for _, slot := range []string{"0", "1"} {
				ok(t, os.Truncate(filepath.Join(o.Dir, "journal.account."+slot), 0))
			}
		},
		"for a new limit": func(_ *testing.T, o *jetstream.Options) { o.KeepFailed = time.Hour },
		"for a new stream": func(t *testing.T, o *jetstream.Options) {
			asKilled(t, o.Dir)
			forgetStream(t, o.Dir, "KV_analytics-state")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t)
			o := jetstream.Options{Dir: filepath.Join(disk, "data")}
			j := open(t, o)
			attach(t, j, "d")
			appendCalls(t, j, "web", "early", 10)
			ok(t, j.Close())
			prepare(t, &o)
			filler := filepath.Join(disk, "filler")
			log := &onLine{logged: newLog(t), text: "embedded server: Server is ready", do: func() {
				command(t, "sh", "-c", "dd if=/dev/zero of="+filler+" bs=4k 2>/dev/null; true")
			}}
			o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			j = open(t, o)
			if n := log.count("the disk is full: new calls are refused until there is space"); n != 1 {
				t.Errorf("the log reports %d times that the disk is full, want once", n)
			}
			work(t, attach(t, j, "d"), 10, delivered)
			verified(t, j, "d")
			ok(t, os.Remove(filler))
			await(t, "ready", func() bool { return j.Ready(within(t)) == nil })
		})
	}
}

// forgetStream removes a stream from a directory, as if an older version had created it.
func forgetStream(t *testing.T, dir, name string) {
	t.Helper()
	m, err := (&datadir.Files{Path: dir}).ReadMarker()
	ok(t, err)
	m.Streams = slices.DeleteFunc(m.Streams, func(s string) bool { return s == name })
	ok(t, m.Write(dir))
	ok(t, os.RemoveAll(filepath.Join(dir, "jetstream", "$G", "streams", name)))
}

// TestFullDiskWithoutBallast uses up the space that the journal releases on a full disk. The log
// must report how much space is needed, and the queue must drain with that space.
func TestFullDiskWithoutBallast(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	filler := filepath.Join(disk, "filler")
	fill := func() {
		command(t, "sh", "-c", "dd if=/dev/zero bs=4k oflag=append conv=notrunc of="+filler+" 2>/dev/null; true")
	}
	log := newLog(t)
	j := open(t, jetstream.Options{Dir: filepath.Join(disk, "data"), Logger: slog.New(slog.NewTextHandler(log, nil))})
	r := attach(t, j, "d")
	appendCalls(t, j, "web", "early", 10)
	const lacking = "and its reserved space is used up"
	await(t, "the log reports the missing space", func() bool {
		fill()
		_ = j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: noise("m", 10, 2000)})
		soon, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		_, _ = j.Attach(soon, rand.Text(), nil) // the control message takes space even while calls are rejected
		return strings.Contains(log.text(), lacking)
	})
	var needed int64
	for line := range strings.Lines(log.text()) {
		if strings.Contains(line, lacking) {
			_, after, _ := strings.Cut(line, " needed=")
			_, err := fmt.Sscan(after, &needed)
			ok(t, err)
		}
	}
	if needed < 1<<20 || needed > 4<<20 {
		t.Errorf("%d bytes are said to be needed", needed)
	}
	command(t, "truncate", "-s", fmt.Sprint(-needed), filler)
	await(t, "the store is writable again", func() bool { return strings.Contains(log.text(), "the store is writable again") })
	work(t, r, int(ledgerOf(t, j, "d").Pending), delivered)
	verified(t, j, "d")
	ok(t, os.Remove(filler))
	await(t, "ready", func() bool { return j.Ready(within(t)) == nil })
}
