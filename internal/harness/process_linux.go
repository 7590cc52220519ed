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

// endsWithUs makes the kernel end a process when this one is gone.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// Usage reads what the process has used, from /proc.
func (p *Process) Usage() (Usage, error) {
	var u Usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, errors.New("/proc/…/stat has another form than expected")
	}
	const ticks = 100 // a second, on every Linux that Go runs on
	for _, f := range fields[11:13] {
		n, _ := strconv.ParseInt(f, 10, 64)
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	u.Writes, u.Written, err = p.writes()
	return u, err
}

func (p *Process) writes() (writes, bytes int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.Pid()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "syscw":
			writes = n
		case "write_bytes":
			bytes = n
		}
	}
	return writes, bytes, nil
}

// ForgetPeak has PeakRSS begin anew.
func (p *Process) ForgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Pid()), []byte("5"), 0)
}
