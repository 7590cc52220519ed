// Package harness runs the command collector against real receivers, for the tests and
// the measurements of the nested modules.
package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyPatience is how long a collector may take to become ready.
const readyPatience = 60 * time.Second

// Build builds the command into a directory and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "collector")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/seed-45eadc4a/analytics-go/mockserver/collector")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
}

// ports are those that FreeAddress has returned. Tests run in several processes at once:
// each begins somewhere else, and holds the UDP port of the same number for as long as it
// lives, so that no other process takes the address while no program listens on it.
var ports struct {
	mu   sync.Mutex // guards what follows
	last uint32
	held []net.PacketConn
}

func init() { ports.last = rand.Uint32() }

// FreeAddress returns an address of the loopback interface on which nothing listens, and
// which it returns to nobody else while this process lives. Its port lies below those that
// systems give to outgoing connections, so that it stays free until a program listens on
// it, and while that program is started again.
func FreeAddress() (string, error) {
	const first, count = 12_000, 20_000
	ports.mu.Lock()
	defer ports.mu.Unlock()
	var err error
	for range 100 {
		ports.last++
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(first+ports.last%count)))
		var hold net.PacketConn
		if hold, err = net.ListenPacket("udp", address); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			ports.held = append(ports.held, hold)
			return address, l.Close()
		}
		_ = hold.Close()
	}
	return "", err
}

// A Process is a program that was started, and that can be killed.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read once done is closed

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Start starts a program, which ends with this one where the system can see to that.
// prepare may change the command before.
func Start(path string, args []string, prepare func(*exec.Cmd)) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = (*processLog)(p), (*processLog)(p)
	p.cmd.SysProcAttr = endsWithUs()
	if prepare != nil {
		prepare(p.cmd)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Linux takes the end of the thread that started it for ours
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// processLog keeps what a process prints.
type processLog Process

func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

// Log returns what the process has printed.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process at once, as kill -9 does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end and returns how it did.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !p.Ended() {
		p.Kill() // a system that cannot ask, such as Windows
	}
	<-p.done
	return p.err
}

// Wait waits until the process has ended, and returns how.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Usage is the use of resources by a process until now.
type Usage struct {
	RSS, PeakRSS int64         // bytes
	CPU          time.Duration // user and system
	Writes       int64         // system calls that wrote, to files and connections
	Written      int64         // bytes that went to a disk
	In, Out      int64         // bytes of all reads and writes, of files and connections
}

// Usage returns the usage of a process that has not ended.
func (p *Process) Usage() (Usage, error) { return UsageOf(p.Pid()) }

// A Collector is a running command.
type Collector struct {
	*Process
	URL        string
	Token      string        // for the admin API, or empty
	Startup    time.Duration // from the start of the process to readiness
	StartupCPU time.Duration // what that cost, where the system tells it
}

// Serve starts collector serve on a configuration file and waits until it is
// ready. address is where that says it listens.
func Serve(path, config, address string, prepare func(*exec.Cmd)) (*Collector, error) {
	begin := time.Now()
	p, err := Start(path, []string{"serve", "--config", config}, prepare)
	if err != nil {
		return nil, err
	}
	c := &Collector{Process: p, URL: "http://" + address}
	if err := c.AwaitReady(readyPatience); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%w\n%s", err, p.Log())
	}
	c.Startup = time.Since(begin)
	usage, err := c.Usage()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	c.StartupCPU = usage.CPU
	return c, nil
}

// Ask asks the admin API: it sends a body as JSON unless that is nil, and reads what
// is answered into a pointer unless that is nil.
func (c *Collector) Ask(ctx context.Context, method, path string, body, answer any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	res, err := c.request(ctx, method, "/api/v1"+path, &text)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		why, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, why)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(answer)
}

// Metrics returns what Prometheus would scrape: values by name and labels.
func (c *Collector) Metrics(ctx context.Context) (map[string]float64, error) {
	res, err := c.request(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		end := strings.LastIndexByte(lines.Text(), ' ')
		if n, err := strconv.ParseFloat(lines.Text()[end+1:], 64); err == nil {
			values[lines.Text()[:max(end, 0)]] = n
		}
	}
	return values, lines.Err()
}

func (c *Collector) request(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return http.DefaultClient.Do(req)
}

// Ready reports whether /ready answers 200.
func (c *Collector) Ready() bool {
	res, err := http.Get(c.URL + "/ready")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// AwaitReady waits until the collector is ready.
func (c *Collector) AwaitReady(patience time.Duration) error {
	for deadline := time.Now().Add(patience); !c.Ready(); time.Sleep(time.Millisecond) {
		if c.Ended() {
			return fmt.Errorf("the collector ended before it was ready: %w", c.err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the collector was not ready after %v", patience)
		}
	}
	return nil
}
