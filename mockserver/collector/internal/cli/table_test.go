package cli

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

func sample() *grid {
	var g grid
	g.header("NAME,EMPTY,COUNT,REASON")
	g.row("日本", "", 1234567890, "a reason that is rather long, as reasons are")
	g.row("a\x1b[2J", "", 2, "short")
	return &g
}

func TestTablesOmitEmptyColumnsAndAlignWideCharacters(t *testing.T) {
	text, cut := sample().format(0)
	assert.False(t, cut)
	assert.Equal(t, "NAME   COUNT       REASON\n"+
		"日本   1234567890  a reason that is rather long, as reasons are\n"+
		"a\uFFFD[2J  2           short\n", text)
}

func TestTablesFitTheTerminalAndKeepNumbers(t *testing.T) {
	for most := 30; most < 80; most++ {
		text, _ := sample().format(most)
		assert.Contains(t, text, "1234567890")
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, ansi.StringWidth(strings.TrimSuffix(line, "\n")), most, text)
		}
	}
}

func TestTruncatedTablesAreReported(t *testing.T) {
	text, cut := sample().format(40)
	assert.True(t, cut)
	assert.Contains(t, text, "…")
}
