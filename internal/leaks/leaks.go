// Package leaks is for tests: it finds what they leave behind.
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

// TB is what [Check] uses of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// Check fails the test if goroutines, or on Linux files, sockets and mapped files, are
// there at its end that were not when Check was called. It is called before anything is
// started, and waits for the end of what is left for half a minute. Nothing may run beside
// the test.
func Check(t TB) {
	t.Helper()
	before := inUse()
	t.Cleanup(func() {
		t.Helper()
		var left []string
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // nothing tells of an end
			if left = since(before); len(left) == 0 {
				return
			}
		}
		t.Errorf("%d are left:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// since returns what is in use that was not before.
func since(before map[string]string) []string {
	now := inUse()
	for name := range before {
		delete(now, name)
	}
	return slices.Sorted(maps.Values(now))
}

// inUse describes what is in use, by names that are not used again.
func inUse() map[string]string {
	all := goroutines()
	descriptors, _ := filepath.Glob("/proc/self/fd/*")
	for _, descriptor := range descriptors {
		file, err := os.Readlink(descriptor)
		if err != nil || strings.HasPrefix(file, "/proc/") || strings.HasPrefix(file, "anon_inode:") { // of the runtime, and of this look
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

// goroutines returns the stacks of all goroutines, by their numbers.
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
