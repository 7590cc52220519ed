// Package harness runs the command collector with real receivers. The tests and benchmarks of
// the nested modules use it.
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

// readyPatience is the time limit for a collector to become ready.
const readyPatience = 60 * time.Second

// Build builds the command collector in dir and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "collector")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/seed-45eadc4a/analytics-go/mockserver/collector")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
}

// ports contains the ports that FreeAddress has returned. Tests run in several processes at
// the same time. Each process starts its search at a different port. To reserve a port for
// itself, it opens the UDP port with the same number until it exits.
var ports struct {
	mu   sync.Mutex // guards the fields below
	last uint32
	held []net.PacketConn
}

func init() { ports.last = rand.Uint32() }

// FreeAddress returns an unused address of the loopback interface. It never returns the same
// address twice. The port is below the range that the system uses for outgoing connections, so
// it stays free until a program listens on it, even while that program restarts.
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

// A Process is a running program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
	err  error         // the error of Wait; read it only after done is closed

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Start starts a program. On Linux, the kernel kills the program when this process exits.
// prepare can change the command before it starts.
func Start(path string, args []string, prepare func(*exec.Cmd)) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = (*processLog)(p), (*processLog)(p)
	p.cmd.SysProcAttr = killWithParent()
	if prepare != nil {
		prepare(p.cmd)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // on Linux, the program is also killed when the thread that started it exits
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

// processLog implements io.Writer. It stores the output of a process.
type processLog Process

func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

// Log returns the output of the process.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Pid returns the ID of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process immediately, like kill -9.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop sends SIGTERM to the process, waits for its exit, and returns the exit error.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !p.Ended() {
		p.Kill() // some systems, such as Windows, do not support SIGTERM
	}
	<-p.done
	return p.err
}

// Wait waits until the process has exited, and returns its exit error.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Ended reports whether the process has exited.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Usage is the resource usage of a process since its start.
type Usage struct {
	RSS, PeakRSS int64         // resident memory in bytes
	CPU          time.Duration // user and system time
	Writes       int64         // number of write system calls, for files and connections
	Written      int64         // bytes written to disks
	In, Out      int64         // bytes read and written, including connections
}

// Usage returns the usage of a running process.
func (p *Process) Usage() (Usage, error) { return UsageOf(p.Pid()) }

// A Collector is a running command collector.
type Collector struct {
	*Process
	URL        string
	Token      string        // token for the admin API, or empty
	Startup    time.Duration // time from the start of the process until it was ready
	StartupCPU time.Duration // CPU time until the process was ready; 0 where not supported
}

// Serve runs the command collector serve with a configuration file and waits until the collector
// is ready. address is the address in the configuration.
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

// Ask sends a request to the admin API. If body is not nil, it is sent as JSON. If answer is not
// nil, Ask decodes the response into it.
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

// Metrics returns the values of the Prometheus metrics. A key is a metric's name with its labels.
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

// Ready reports whether /ready responds 200.
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
	for deadline := time.Now().Add(patience); !c.Ready(); time.Sleep(5 * time.Millisecond) {
		if c.Ended() {
			return fmt.Errorf("the collector exited before it was ready: %w", c.err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the collector was not ready after %v", patience)
		}
	}
	return nil
}
