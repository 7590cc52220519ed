//go:build !linux

package harness

import (
	"errors"
	"fmt"
	"syscall"
)

func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// Usage is for Linux alone: load tests need it, the other tests do not.
func (p *Process) Usage() (Usage, error) {
	return Usage{}, fmt.Errorf("what process %d has used is read from /proc, which Linux has: %w", p.Pid(), errors.ErrUnsupported)
}

// ForgetPeak has PeakRSS begin anew, where the system tells that.
func (p *Process) ForgetPeak() error { return errors.ErrUnsupported }
