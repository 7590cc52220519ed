//go:build unix

package e2e

import (
	"os/exec"
	"syscall"
)

// endWithItsChildren makes Cancel kill the whole process group, because go run starts another
// process.
func endWithItsChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
