package service

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// unmapProgram unmaps clean pages of the executable. At the start, the kernel maps four fifths
// of the file, because it maps many pages around each page that is used. An idle collector needs
// one fifth. The kernel maps pages again from the page cache when they are used.
func unmapProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	var start, end uintptr // a read-only mapping of the executable
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		var from, to uintptr
		var access string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); n == 3 {
			if start, end = from, to; strings.Contains(access, "w") || !strings.HasSuffix(line, " "+program) {
				end = start
			}
			continue
		}
		// Only mappings without anonymous pages are clean. Modified pages, such as pages with
		// breakpoints, are anonymous.
		if value, ok := strings.CutPrefix(line, "Anonymous:"); ok && strings.TrimSpace(value) == "0 kB" && start < end {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		}
	}
}
