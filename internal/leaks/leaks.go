// Package leaks detects goroutines and files that a test leaves open.
package leaks

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// TB is the part of *testing.T that [Check] uses.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// Check fails the test if, at its end, there are new goroutines, or on Linux new files, sockets or
// mapped files. It waits up to 30 seconds until they are gone. Call it before the test starts
// anything. No other test may run at the same time.
func Check(t TB) {
	t.Helper()
	before := inUse()
	t.Cleanup(func() {
		t.Helper()
		var left []string
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // poll, because there is no event to wait for
			if left = since(before); len(left) == 0 {
				return
			}
		}
		t.Errorf("%d leaks:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// since returns the resources in use that are not in before.
func since(before map[string]string) []string {
	now := inUse()
	for name := range before {
		delete(now, name)
	}
	return slices.Sorted(maps.Values(now))
}

// inUse returns the resources in use. A key identifies the resource, and the value describes it.
func inUse() map[string]string {
	all := goroutines()
	descriptors, _ := filepath.Glob("/proc/self/fd/*")
	for _, descriptor := range descriptors {
		file, err := os.Readlink(descriptor)
		if err != nil || strings.HasPrefix(file, "/proc/") || strings.HasPrefix(file, "anon_inode:") { // skip files of the runtime and of this function
			continue
		}
		all[file] = "file " + file
	}
	mappings, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(mappings)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			file := strings.TrimSpace(line[at:])
			all["mapped "+file] = "mapped file " + file
		}
	}
	return all
}

// goroutines returns the stacks of all goroutines, keyed by goroutine number.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for n := runtime.Stack(buf, true); ; n = runtime.Stack(buf, true) {
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		var number int
		if _, err := fmt.Sscanf(stack, "goroutine %d ", &number); err == nil {
			all[fmt.Sprint("goroutine ", number)] = stack
		}
	}
	return all
}
