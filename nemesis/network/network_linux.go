package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Supported returns nil if this machine can create networks, and otherwise the reason.
func Supported() error {
	if os.Geteuid() != 0 {
		return errors.New("virtual networks require root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("virtual networks require %w", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("virtual networks require %w", err)
	}
	return nil
}

// Network is a set of hosts that are connected by a switch. It is safe for concurrent use.
type Network struct {
	self  *Host // the host that represents this process
	hosts []*Host

	mu    sync.Mutex // guards the fields below
	ports map[mac]*Host
	cut   map[[2]*Host]bool // cut directions, from the first to the second host
}

// Host is a machine on the network.
type Host struct {
	Name    string
	Address string // the IPv4 address

	namespace string // empty for the host of this process
	device    string
	tap       *os.File
}

type mac [6]byte

// made is the number of networks that this process has created. It makes names and subnets unique.
var made atomic.Int64

// New creates a network with hosts that have the given names. The caller must call Close.
func New(names ...string) (_ *Network, err error) {
	if err := sweep(); err != nil {
		return nil, err
	}
	n := &Network{ports: map[mac]*Host{}, cut: map[[2]*Host]bool{}}
	defer func() {
		if err != nil {
			_ = n.Close()
		}
	}()
	serial := made.Add(1)
	subnet := fmt.Sprintf("10.%d.%d.", 128+os.Getpid()%128, serial%256)
	for i, name := range append([]string{""}, names...) {
		h := &Host{Name: name, Address: subnet + strconv.Itoa(i+1), device: "eth0"}
		if i == 0 {
			h.device = fmt.Sprintf("nem%d-%d", os.Getpid()%100000, serial)
			n.self = h
		} else {
			h.namespace = fmt.Sprintf("%s%d-%d-%s", prefix, os.Getpid(), serial, name)
		}
		n.hosts = append(n.hosts, h)
		if err := h.plugIn(); err != nil {
			return nil, err
		}
		go n.forward(h)
	}
	return n, nil
}

// prefix is the start of namespace names. The process ID and a number follow.
const prefix = "nemesis-"

// sweep removes namespaces of processes that have exited.
func sweep() error {
	all, err := filepath.Glob("/run/netns/" + prefix + "*")
	if err != nil {
		return err
	}
	for _, path := range all {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), prefix), "-")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = ip("netns", "del", filepath.Base(path)) // another process may remove it at the same time
		}
	}
	return nil
}

// plugIn creates the namespace and the interface of a host.
func (h *Host) plugIn() error {
	where := []string{}
	if h.namespace != "" {
		if err := ip("netns", "add", h.namespace); err != nil {
			return err
		}
		where = []string{"-n", h.namespace}
	}
	if err := h.inside(func() (err error) {
		h.tap, err = openTap(h.device)
		return err
	}); err != nil {
		return fmt.Errorf("network: creating an interface: %w", err)
	}
	for _, command := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", h.Address + "/24", "dev", h.device},
		{"link", "set", h.device, "up"},
	} {
		if err := ip(append(where, command...)...); err != nil {
			return err
		}
	}
	return nil
}

// inside calls the function do on an operating system thread that is in the host's namespace.
func (h *Host) inside(do func() error) error {
	if h.namespace == "" {
		return do()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread exits with the goroutine
		ns, err := os.Open("/run/netns/" + h.namespace)
		if err == nil {
			defer func() { _ = ns.Close() }()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// openTap creates a network interface. Its frames are read from and written to the returned file.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// forward forwards the frames of a host until its interface is closed.
func (n *Network) forward(from *Host) {
	frame := make([]byte, 2048)
	for {
		size, err := from.tap.Read(frame)
		if err != nil {
			return
		}
		if size < 14 {
			continue
		}
		for _, to := range n.route(from, mac(frame[0:6]), mac(frame[6:12])) {
			_, _ = to.tap.Write(frame[:size]) // an interface that is down drops the frame
		}
	}
}

// route returns the hosts that receive a frame.
func (n *Network) route(from *Host, to, source mac) (all []*Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[source] = from
	targets := n.hosts
	if known, ok := n.ports[to]; ok {
		targets = []*Host{known}
	}
	for _, h := range targets {
		if h != from && !n.cut[[2]*Host{from, h}] {
			all = append(all, h)
		}
	}
	return all
}

// Host returns the host with the given name.
func (n *Network) Host(name string) *Host {
	for _, h := range n.hosts[1:] {
		if h.Name == name {
			return h
		}
	}
	panic("network: no host " + name)
}

// Self returns this process's address on the network.
func (n *Network) Self() string { return n.self.Address }

// Cut makes the switch drop frames from one host to another. Frames in the other direction pass.
func (n *Network) Cut(from, to *Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]*Host{from, to}] = true
}

// Isolate cuts all connections between a host and the other hosts, except for this process.
func (n *Network) Isolate(h *Host) {
	for _, other := range n.hosts[1:] {
		if other != h {
			n.Cut(h, other)
			n.Cut(other, h)
		}
	}
}

// Heal restores all connections that were cut.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// Command returns a command line that runs the given command on the host.
func (h *Host) Command(command ...string) []string {
	return append([]string{"ip", "netns", "exec", h.namespace}, command...)
}

// Listen listens on a port of the host.
func (h *Host) Listen(port string) (l net.Listener, err error) {
	err = h.inside(func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(h.Address, port))
		return err
	})
	return l, err
}

// Close removes all hosts. Stop their programs first.
func (n *Network) Close() error {
	var errs []error
	for _, h := range n.hosts {
		if h.tap != nil {
			errs = append(errs, h.tap.Close())
		}
		if h.namespace != "" {
			errs = append(errs, ip("netns", "del", h.namespace))
		}
	}
	n.hosts = nil
	return errors.Join(errs...)
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("network: ip %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
