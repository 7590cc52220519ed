package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	journalpkg "github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// smallDisk mounts a small file system in memory. Only root may.
func smallDisk(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file system can be mounted by root only")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a file system cannot be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// logged keeps what is logged.
type logged struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// A trouble is something that can happen to a disk and be mended.
type trouble struct {
	dir  string
	make func()
	mend func()
	full bool // it is one of room
}

// fullDisk has all but so much room taken that a few batches still fit.
func fullDisk(t *testing.T) trouble {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	return trouble{
		dir: dir, full: true,
		make: func() {
			command(t, "sh", "-c", "dd if=/dev/zero of="+ballast+" bs=64k 2>/dev/null; truncate -s -256k "+ballast)
		},
		mend: func() { ok(t, os.Remove(ballast)) },
	}
}

// readOnlyDisk becomes read-only as ext4 does when it finds an error. It is
// mended by mounting it anew.
func readOnlyDisk(t *testing.T) trouble {
	image, dir := newDisk(t)
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", dir).Output()
	ok(t, err)
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skipf("a file system cannot be made read-only here: %v", err)
	}
	return trouble{
		dir:  dir,
		make: func() { ok(t, os.WriteFile(trigger, []byte("1"), 0)) },
		mend: func() {
			command(t, "umount", "-l", dir)
			command(t, "cp", "--sparse=always", image, image+".2") // another device, which knows of no error
			command(t, "mount", "-o", "loop", image+".2", dir)
		},
	}
}

// TestTroubleWithTheDisk has a disk fill up, and become read-only, and be mended,
// all under the same process.
func TestTroubleWithTheDisk(t *testing.T) {
	for name, disk := range map[string]func(*testing.T) trouble{"full": fullDisk, "read-only": readOnlyDisk} {
		t.Run(name, func(t *testing.T) {
			disk, log := disk(t), &logged{}
			options := journal.Options{Dir: filepath.Join(disk.dir, "data"), Logger: slog.New(slog.NewTextHandler(log, nil))}
			j := open(t, options)
			r := attach(t, j, "d")
			accepted := 0
			send := func() error {
				calls := journaltest.Calls("web", "m", 100)
				err := j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls})
				if err == nil {
					accepted += len(calls)
				}
				return err
			}
			for range 10 {
				ok(t, send())
			}
			work(t, r, 500, delivered)

			disk.make()
			refused(t, j, send, disk.full)
			disk.mend()
			for deadline := time.Now().Add(patience); send() != nil; time.Sleep(10 * time.Millisecond) { // as a sender comes again
				if time.Now().After(deadline) {
					t.Fatalf("calls are still refused; the log:\n%s", strings.Join(log.lines, ""))
				}
			}
			ok(t, j.Ready(t.Context()))
			work(t, r, int(ledgerOf(t, j, "d").Pending), delivered)
			l := verified(t, j, "d")
			if l.Delivered < int64(accepted) || l.Pending != 0 {
				t.Errorf("%d calls were accepted: %s", accepted, sums(l))
			}
			for _, line := range []string{"calls are refused until it can", "the store can be written to again"} {
				if log.count(line) != 1 {
					t.Errorf("%q was logged %d times, want once", line, log.count(line))
				}
			}
			ok(t, j.Close())
			wantSums(t, verified(t, open(t, options), "d"), sums(l))
		})
	}
}

// refused sends until calls are refused, and looks how.
func refused(t *testing.T, j *journal.Journal, send func() error, full bool) {
	t.Helper()
	began := time.Now()
	var err error
	for err == nil && time.Since(began) < patience {
		err = send()
	}
	if err == nil {
		t.Fatal("calls are taken that cannot be stored")
	}
	if errors.Is(err, syscall.ENOSPC) != full || errors.Is(err, journalpkg.ErrFull) {
		t.Errorf("refused with: %v", err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v to find out", d)
	}
	if err := j.Ready(t.Context()); err == nil {
		t.Error("it says that it is ready")
	}
	began = time.Now()
	if err := send(); err == nil || time.Since(began) > time.Second {
		t.Errorf("the next batch was answered after %v: %v", time.Since(began), err)
	}
}

// TestFullDiskIsDrained has a disk fill up under pending calls. They are delivered, each
// once, and calls are refused until there is room.
func TestFullDiskIsDrained(t *testing.T) {
	disk := fullDisk(t)
	dir := filepath.Join(disk.dir, "data")
	j := open(t, journal.Options{Dir: dir})
	r := attach(t, j, "d")
	accepted := map[string]bool{}
	send := func(i int) error {
		calls := noise(fmt.Sprint("m", i), 10, 2000)
		err := j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls})
		for _, c := range calls {
			if err == nil {
				accepted[c.ID] = true
			}
		}
		return err
	}
	i := 0
	for ; i < 200; i++ {
		ok(t, send(i))
	}
	disk.make()
	for ; send(i) == nil; i++ {
	}
	delivered := map[string]int{}
	for deadline := time.Now().Add(patience); ; {
		if l := ledgerOf(t, j, "d"); l.Pending == 0 {
			break
		}
		ctx, cancel := contextUntil(t, deadline)
		l, err := r.Next(ctx, journalpkg.Want{})
		cancel()
		ok(t, err)
		result := journalpkg.Result{RetryAt: time.Now()}
		for n, c := range l.Entry().Calls {
			state := tracking.StateDelivered
			if n%4 == 0 && l.Entry().Attempt == 1 {
				state = tracking.StatePending
			} else {
				delivered[c.ID]++
			}
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: state})
		}
		ok(t, l.Finish(t.Context(), result))
	}
	for id := range accepted {
		if delivered[id] != 1 {
			t.Errorf("%s was delivered %d times", id, delivered[id])
		}
	}
	if err := send(i); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is still full, and a call is answered with: %v", err)
	}
	verified(t, j, "d")
	disk.mend()
	for deadline := time.Now().Add(patience); send(i) != nil; time.Sleep(10 * time.Millisecond) { // as a sender comes again
		if time.Now().After(deadline) {
			t.Fatal("calls are still refused")
		}
	}
	ok(t, j.Ready(t.Context()))
}

// TestNothingIsLeasedWhileNothingCanBeStored has a disk become read-only while calls
// are delivered: those that are at work are finished when it is mended. No more are
// delivered again than were at work, four entries of 100 calls: what became of these may
// have been stored without a proof.
func TestNothingIsLeasedWhileNothingCanBeStored(t *testing.T) {
	disk, log := readOnlyDisk(t), &logged{}
	j := open(t, journal.Options{Dir: filepath.Join(disk.dir, "data"), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r := attach(t, j, "d")
	for i := range 40 {
		appendCalls(t, j, "web", fmt.Sprint("m", i), 100)
	}
	var mu sync.Mutex // guards leased
	leased := map[string]int{}
	var finishing sync.RWMutex
	var workers sync.WaitGroup
	ctx, stop := contextUntil(t, time.Now().Add(patience))
	defer stop()
	for range 4 {
		workers.Go(func() {
			for {
				l, err := r.Next(ctx, journalpkg.Want{})
				if err != nil {
					return
				}
				mu.Lock()
				for _, c := range l.Entry().Calls {
					leased[c.ID]++
				}
				all := len(leased)
				if all == 1000 {
					finishing.Lock() // what is being synced just then may be lost by the system
					disk.make()
					finishing.Unlock()
					time.AfterFunc(3*time.Second, disk.mend) // what would be leased meanwhile is counted
				}
				mu.Unlock()
				result := journalpkg.Result{Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
				for i := range result.Outcomes {
					result.Outcomes[i].State = tracking.StateDelivered
				}
				finishing.RLock()
				err = l.Finish(ctx, result)
				finishing.RUnlock()
				if err != nil {
					t.Error(err)
				}
				if all == 4000 {
					stop()
				}
			}
		})
	}
	workers.Wait()
	repeats := 0
	for _, n := range leased {
		repeats += n - 1
	}
	if len(leased) != 4000 || repeats > 4*100 {
		t.Fatalf("%d of 4000 calls were leased, %d times again; the log:\n%s", len(leased), repeats, strings.Join(log.lines, ""))
	}
	if log.count("calls are refused until it can") != 1 {
		t.Error("the disk was well all the time")
	}
	wantSums(t, verified(t, j, "d"), "4000 = 4000 + 0 + 0 + 0")
}

// TestWhatIsTakenWhileTheDiskTurnsReadOnly has a file system give up while calls are
// taken and delivered: it may have a sync succeed whose end it does not write any more.
// What was taken is there when it is mended, and the collector goes on by itself.
func TestWhatIsTakenWhileTheDiskTurnsReadOnly(t *testing.T) {
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			disk := readOnlyDisk(t)
			j := open(t, journal.Options{Dir: filepath.Join(disk.dir, "data")})
			r := attach(t, j, "d")
			var taken sync.Map // messageIds
			var readOnly atomic.Bool
			var senders sync.WaitGroup
			ctx, stop := contextUntil(t, time.Now().Add(patience))
			defer stop()
			senders.Go(func() { deliverAll(ctx, r) })
			give := make(chan struct{})
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
							close(give)
						}
					}
				})
			}
			<-give
			disk.make()
			readOnly.Store(true)
			for deadline := time.Now().Add(patience); j.Ready(ctx) == nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("calls are taken that cannot be stored")
				}
			}
			disk.mend()
			for deadline := time.Now().Add(patience); j.Ready(ctx) != nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("it does not go on by itself: %v", j.Ready(ctx))
				}
			}
			for ledgerOf(t, j, "d").Pending > 0 && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
			senders.Wait()
			ok(t, j.Seen(t.Context(), 1<<30, func(_, id string, _ time.Time) bool { taken.Delete(id); return true }))
			taken.Range(func(id, _ any) bool { t.Errorf("%s was taken and is gone", id); return true })
			verified(t, j, "d")
		})
	}
}

// deliverAll delivers until ctx ends.
func deliverAll(ctx context.Context, r journalpkg.Reader) {
	for {
		l, err := r.Next(ctx, journalpkg.Want{})
		if err != nil {
			return
		}
		result := journalpkg.Result{Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
		for i := range result.Outcomes {
			result.Outcomes[i].State = tracking.StateDelivered
		}
		_ = l.Finish(ctx, result) // it fails when ctx ends
	}
}

// TestStartOnAFullDisk starts where there is no room at all, after an orderly stop and
// after a kill: what is pending is delivered.
func TestStartOnAFullDisk(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		t.Run(fmt.Sprintf("stopped %v", stopped), func(t *testing.T) {
			disk := smallDisk(t)
			dir := filepath.Join(disk, "data")
			j := open(t, journal.Options{Dir: dir})
			attach(t, j, "d")
			for i := range 50 {
				ok(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: noise(fmt.Sprint("m", i), 10, 2000)}))
			}
			ok(t, j.Close())
			if !stopped {
				asKilled(t, dir)
			}
			ballast := filepath.Join(disk, "filler")
			command(t, "sh", "-c", "dd if=/dev/zero of="+ballast+" bs=64k 2>/dev/null; true")
			j = open(t, journal.Options{Dir: dir})
			work(t, attach(t, j, "d"), 500, mixed)
			verified(t, j, "d")
			ok(t, os.Remove(ballast))
			for deadline := time.Now().Add(patience); j.Ready(t.Context()) != nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it is not ready")
				}
			}
			appendCalls(t, j, "web", "later", 10)
		})
	}
}
