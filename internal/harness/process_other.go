//go:build !linux

package harness

import (
	"errors"
	"fmt"
	"syscall"
)

func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// UsageOf is not supported. Only measurements use it.
func UsageOf(pid int) (Usage, error) {
	return Usage{}, fmt.Errorf("reading the usage of process %d requires Linux: %w", pid, errors.ErrUnsupported)
}

// ForgetPeak is not supported.
func (p *Process) ForgetPeak() error { return errors.ErrUnsupported }
