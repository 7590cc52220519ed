//go:build !linux

package harness

import (
	"errors"
	"fmt"
	"syscall"
)

func killWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// UsageOf is not supported on this system. Only benchmarks use it.
func UsageOf(pid int) (Usage, error) {
	return Usage{}, fmt.Errorf("reading the usage of process %d requires Linux: %w", pid, errors.ErrUnsupported)
}

// ResetPeakRSS is not supported on this system.
func (p *Process) ResetPeakRSS() error { return errors.ErrUnsupported }
