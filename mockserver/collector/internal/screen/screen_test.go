package screen_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/screen"
)

func write(t *testing.T, text string) *screen.Screen {
	t.Helper()
	s := screen.New(8, 4)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	for i := range len(text) { // split escape sequences and characters
		_, err := s.Write([]byte(text[i : i+1]))
		require.NoError(t, err)
	}
	return s
}

func TestScreenShowsText(t *testing.T) {
	s := write(t, "\x1b]2;title\x1b\\日本a\x1b[5Gb\r\n\x1b[6n\x1b[1;31mred\x1b[m\x1b[?25l\x1b[?1049h")
	assert.False(t, s.Restored())
	_, err := s.Write([]byte("\x1b[?1049l\x1b[?25h"))
	require.NoError(t, err)
	assert.True(t, s.Restored())
	assert.Equal(t, "日本b\nred\n\n\n", s.String())
	assert.Equal(t, screen.Cell{Text: "r", Style: screen.Style{Bold: true, Color: 2}}, s.Cells()[1][0])
}
