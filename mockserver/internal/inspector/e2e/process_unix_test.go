//go:build unix

package e2e

import (
	"os/exec"
	"syscall"
)

// endWithItsChildren makes Cancel end what the program started too: go run starts
// what it has built.
func endWithItsChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
