package service

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mappedProgram returns how many kB of the file of the program are mapped.
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
