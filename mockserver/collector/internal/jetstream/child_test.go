package jetstream_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/natsnode"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// childEnv makes this test binary run as a child process. Its value is a childConfig.
const childEnv = "JOURNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if config := os.Getenv(childEnv); config != "" {
		runChild(config)
		return
	}
	if config := os.Getenv(serverEnv); config != "" {
		if err := natsnode.Run(config); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A childConfig configures a child. A child opens and verifies a journal, appends calls until it
// is killed or stopped, and delivers all entries. It prints these lines:
//
//	verified                the ledger was verified after the start
//	problem TEXT            a failure
//	accepted ID …           calls accepted by Append
//	delivered DEST ID …     calls about to be finished
//	drained                 stopped, and nothing is pending
//	ledger DEST A D F X P
type childConfig struct {
	Name    string // prefix of the child's message IDs
	Options jetstream.Options
	Senders int
	Batch   int
	Rate    time.Duration // pause between a sender's batches
	Slow    time.Duration // duration of a delivery
	Trim    time.Duration // pause between trims; 0 selects one minute
	Forget  bool          // removes the checkpoints before the end
}

// The destinations of children. One accepts every call, and one rejects some calls.
const (
	good  = "good"
	flaky = "flaky one"
)

// flakyDecides returns a state that depends only on the ID and the attempt.
func flakyDecides(id string, attempt int) tracking.State {
	switch (len(id) + int(id[len(id)-1])) % 5 {
	case 0:
		if attempt < 3 {
			return tracking.StatePending
		}
	case 1:
		return tracking.StateFailed
	case 2:
		return tracking.StateFiltered
	}
	return tracking.StateDelivered
}

type child struct {
	config childConfig
	mu     sync.Mutex // guards out
	out    *os.File
}

func (c *child) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.out, format+"\n", args...)
}

// runChild runs a child. Closing its standard input stops it.
func runChild(config string) {
	c := &child{out: os.NewFile(3, "reports")}
	if err := json.Unmarshal([]byte(config), &c.config); err != nil {
		panic(err)
	}
	if err := c.run(); err != nil {
		c.say("problem %s", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

func (c *child) run() error {
	ctx := context.Background()
	j, err := jetstream.Open(ctx, c.config.Options)
	for deadline := time.Now().Add(patience); jetstream.Transient(err) && time.Now().Before(deadline); {
		j, err = jetstream.Open(ctx, c.config.Options)
	}
	if err != nil {
		return err
	}
	readers := map[string]journal.Reader{}
	for _, d := range []string{good, flaky} {
		if readers[d], err = j.Attach(ctx, d, nil); err != nil {
			return err
		}
	}
	if err := verify(ctx, j); err != nil {
		return err
	}
	if c.config.Forget {
		if err := j.RemoveCheckpoints(ctx); err != nil {
			return err
		}
	}
	c.say("verified")
	if c.config.Trim > 0 {
		go c.trim(ctx, j)
	}
	for d, r := range readers {
		for range 4 {
			go c.work(ctx, d, r)
		}
	}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	var senders sync.WaitGroup
	for i := range c.config.Senders {
		senders.Go(func() { c.send(ctx, j, i, stop) })
	}
	senders.Wait()
	<-stop
	if err := c.drain(ctx, j); err != nil {
		return err
	}
	if err := verify(ctx, j); err != nil {
		return err
	}
	c.say("drained")
	return j.Close()
}

func (c *child) trim(ctx context.Context, j *jetstream.Journal) {
	for {
		time.Sleep(c.config.Trim)
		if err := j.Trim(ctx); errors.Is(err, journal.ErrClosed) {
			return
		} else if err != nil {
			c.say("problem trimming: %v", err)
		}
	}
}

func verify(ctx context.Context, j *jetstream.Journal) error {
	all, err := j.Verify(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if !v.OK() {
			return fmt.Errorf("not verified: %+v", v)
		}
	}
	return nil
}

func (c *child) send(ctx context.Context, j *jetstream.Journal, sender int, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		calls := journaltest.Calls("web", fmt.Sprintf("%s.%d.%d", c.config.Name, sender, i), c.config.Batch)
		for {
			err := j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls})
			if err == nil {
				break
			}
			c.say("refused %v", err)
			time.Sleep(100 * time.Millisecond) // pause of a sender before it retries
		}
		c.say("accepted %s", strings.Join(idsOf(calls), " "))
		time.Sleep(time.Duration(rand.Int63n(int64(c.config.Rate) + 1)))
	}
}

func idsOf(calls []tracking.Call) []string {
	ids := make([]string, len(calls))
	for i := range calls {
		ids[i] = calls[i].ID
	}
	return ids
}

func (c *child) work(ctx context.Context, destination string, r journal.Reader) {
	decide := delivered
	if destination == flaky {
		decide = flakyDecides
	}
	for {
		l, err := r.Next(ctx, journal.Want{})
		if err != nil {
			return
		}
		time.Sleep(c.config.Slow)
		e := l.Entry()
		result := journal.Result{RetryAt: time.Now().Add(time.Duration(rand.Int63n(int64(time.Second))))}
		var took []string
		for _, call := range e.Calls {
			state := decide(call.ID, e.Attempt)
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: state, Reason: "because"})
			if state != tracking.StatePending {
				took = append(took, call.ID)
			}
		}
		c.say("delivered %s %s", strings.ReplaceAll(destination, " ", "_"), strings.Join(took, " "))
		if err := l.Finish(ctx, result); err != nil {
			c.say("unfinished %v", err)
		}
	}
}

// drain waits until nothing is pending. It fails if no call is finished for a while.
func (c *child) drain(ctx context.Context, j *jetstream.Journal) error {
	last, moved := int64(-1), time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) { // there is no event for changes of the ledger
		ledgers, err := j.Ledger(ctx)
		if err != nil {
			return err
		}
		pending, ended := int64(0), int64(0)
		for _, l := range ledgers {
			if !l.Holds() {
				return fmt.Errorf("the ledger is inconsistent: %+v", l)
			}
			pending, ended = pending+l.Pending, ended+l.Accepted-l.Pending
		}
		if pending == 0 {
			return nil
		}
		if ended != last {
			last, moved = ended, time.Now()
		}
		if time.Since(moved) > patience {
			return fmt.Errorf("still pending: %+v; %w", ledgers, cmp.Or(verify(ctx, j), errors.New("the ledger is consistent")))
		}
	}
}

// A process is a running child.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Reader
	tally *tally
}

// A tally collects the output of all children.
type tally struct {
	t         testing.TB
	mu        sync.Mutex // guards the fields below
	accepted  map[string]bool
	delivered map[string]map[string]int // number of deliveries by destination and ID
	refused   int
}

func newTally(t testing.TB) *tally {
	return &tally{t: t, accepted: map[string]bool{}, delivered: map[string]map[string]int{}}
}

// startChild starts a child and waits until it has verified its journal.
func startChild(t testing.TB, tally *tally, config childConfig) *process {
	t.Helper()
	text, err := json.Marshal(config)
	ok(t, err)
	out, in, err := os.Pipe()
	ok(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.ExtraFiles = []*os.File{in}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	stdin, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	ok(t, in.Close())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	p := &process{cmd: cmd, stdin: stdin, lines: bufio.NewReader(out), tally: tally}
	if !p.until("verified") {
		t.Fatal("the child exited before it had verified its journal")
	}
	return p
}

// until processes a child's output until a given word, or until the end. It ignores an unfinished
// last line. If the child prints nothing, until kills it with SIGQUIT, which prints its goroutines.
func (p *process) until(word string) bool {
	silence := time.AfterFunc(2*patience, func() {
		p.tally.t.Errorf("a child reported nothing for %v; waiting for %q", 2*patience, word)
		if p.cmd.Process.Signal(syscall.SIGQUIT) != nil {
			_ = p.cmd.Process.Kill() // Windows has no SIGQUIT
		}
	})
	defer silence.Stop()
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			return false
		}
		silence.Reset(2 * patience)
		fields := strings.Fields(line)
		if p.tally.count(fields); fields[0] == word {
			return true
		}
	}
}

func (t *tally) count(fields []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch fields[0] {
	case "accepted":
		for _, id := range fields[1:] {
			t.accepted[id] = true
		}
	case "delivered":
		d := t.delivered[fields[1]]
		if d == nil {
			d = map[string]int{}
			t.delivered[fields[1]] = d
		}
		for _, id := range fields[2:] {
			d[id]++
		}
	case "refused":
		t.refused++
	case "problem":
		t.t.Errorf("a child: %s", strings.Join(fields[1:], " "))
	}
}

// killAfter kills the child after d and processes the rest of its output.
func (p *process) killAfter(d time.Duration) {
	timer := time.AfterFunc(d, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	p.until("")
	_ = p.cmd.Wait()
}

// stop makes the child deliver all pending calls and exit.
func (p *process) stop(t testing.TB) {
	t.Helper()
	ok(t, p.stdin.Close())
	if !p.until("drained") {
		t.Fatal("the child exited before all calls were delivered")
	}
	p.until("")
	ok(t, p.cmd.Wait())
}

// check checks that every accepted call was delivered, and returns the number of repeated
// deliveries.
func (t *tally) check(tb testing.TB) (repeats int) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.accepted) == 0 {
		tb.Fatal("no call was accepted")
	}
	for _, d := range []string{good, strings.ReplaceAll(flaky, " ", "_")} {
		lost := 0
		for id := range t.accepted {
			if t.delivered[d][id] == 0 {
				lost++
			}
		}
		if lost > 0 {
			tb.Errorf("%d of %d accepted calls were never delivered to %q", lost, len(t.accepted), d)
		}
		for _, n := range t.delivered[d] {
			repeats += n - 1
		}
	}
	return repeats
}
