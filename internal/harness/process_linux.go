package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killWithParent makes the kernel kill a process when this process exits.
func killWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// UsageOf reads the usage of a process from /proc.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.RSS = kb << 10
		case "VmHWM":
			u.PeakRSS = kb << 10
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // skip the program name, which can contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, errors.New("/proc/…/stat has an unexpected format")
	}
	const ticks = 100 // clock ticks per second, on all Linux systems that Go supports
	for _, f := range fields[11:13] {
		n, _ := strconv.ParseInt(f, 10, 64)
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	err = readIO(pid, &u)
	return u, err
}

func readIO(pid int, u *Usage) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return err
	}
	fields := map[string]*int64{"syscw": &u.Writes, "write_bytes": &u.Written, "rchar": &u.In, "wchar": &u.Out}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if field := fields[name]; field != nil {
			*field, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return nil
}

// ResetPeakRSS resets Usage.PeakRSS.
func (p *Process) ResetPeakRSS() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Pid()), []byte("5"), 0)
}
