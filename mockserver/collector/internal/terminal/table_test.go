package terminal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/terminal"
)

func sample() *terminal.Table {
	t := &terminal.Table{Header: []string{"NAME", "EMPTY", "COUNT", "REASON"}}
	t.Row("日本", "", 1234567890, "a reason that is rather long, as reasons are")
	t.Row("a\x1b[2J", "", 2, "short")
	return t
}

func TestTablesOmitEmptyColumnsAndAlignWideCharacters(t *testing.T) {
	var out strings.Builder
	cut, err := sample().Write(&out, 0)
	require.NoError(t, err)
	assert.False(t, cut)
	assert.Equal(t, "NAME   COUNT       REASON\n"+
		"日本   1234567890  a reason that is rather long, as reasons are\n"+
		"a\uFFFD[2J  2           short\n", out.String())
}

func TestTablesFitTheTerminalAndKeepNumbers(t *testing.T) {
	for most := 30; most < 80; most++ {
		var out strings.Builder
		_, err := sample().Write(&out, most)
		require.NoError(t, err)
		assert.Contains(t, out.String(), "1234567890")
		for line := range strings.Lines(out.String()) {
			assert.LessOrEqual(t, terminal.Width(strings.TrimSuffix(line, "\n")), most, out.String())
		}
	}
}

func TestWriteReportsTruncation(t *testing.T) {
	var out strings.Builder
	cut, err := sample().Write(&out, 40)
	require.NoError(t, err)
	assert.True(t, cut)
	assert.Contains(t, out.String(), "…")
}
