package service

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// unmapProgram unmaps the pages of the program's file, as far as the system lets it. The
// kernel maps many pages around each that is used: four fifths of the file at a start, of
// which an idle collector uses a fifth. A page that is used again is mapped again, from
// the page cache.
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
	var start, end uintptr // of a mapping of the file that is not written to
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
		// Pages that differ from the file, such as those with breakpoints, are anonymous.
		if value, ok := strings.CutPrefix(line, "Anonymous:"); ok && strings.TrimSpace(value) == "0 kB" && start < end {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		}
	}
}
