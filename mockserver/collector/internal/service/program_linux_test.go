package service

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mappedProgram returns the mapped size of the executable in kB.
func mappedProgram(t *testing.T) (kb int) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	all, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	var of bool
	for line := range strings.Lines(string(all)) {
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			of = len(fields) > 5 && fields[5] == program
		case of && fields[0] == "Rss:":
			n, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			kb += n
		}
	}
	return kb
}

func TestProgramIsUnmapped(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	size, err := os.Stat(program)
	require.NoError(t, err)
	before := mappedProgram(t)
	unmapProgram()
	after := mappedProgram(t)
	assert.Less(t, after, before/2, "of %d kB", size.Size()>>10)
}

// mapProgram maps all pages of the program's code.
func mapProgram(t *testing.T) {
	t.Helper()
	const populateRead = 22 // MADV_POPULATE_READ
	all, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	for line := range strings.Lines(string(all)) {
		var start, end uintptr
		var access string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &access); err != nil || access != "r-xp" || !strings.HasSuffix(line, " "+program+"\n") {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, start, end-start, populateRead); errno != 0 {
			t.Skip("this kernel cannot map the pages of a range:", errno)
		}
	}
}

func TestMemoryIsReturnedAfterEachIdleMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := make(chan struct{})
		close(history)
		go saveMemory(t.Context(), history)
		time.Sleep(2 * settled)
		for range 3 {
			mapProgram(t)
			before := mappedProgram(t)
			time.Sleep(quietTime)
			synctest.Wait()
			assert.Less(t, mappedProgram(t), before/2)
		}
	})
}
