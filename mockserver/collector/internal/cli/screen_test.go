package cli

import (
	"image/color"
	"io"
	"strings"
	"sync"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A cell is one column of a row.
type cell struct {
	text  string // "" in the second column of a wide character
	style style
}

// A style is the appearance of a cell.
type style struct {
	bold, faint, reverse bool
	color                int // one of the eight ANSI colors, from 1; 0 is the terminal's default
}

// A screen emulates a terminal for tests and screenshots. Its methods may be called from many goroutines.
type screen struct {
	mu       sync.Mutex // guards all fields
	changed  chan struct{}
	terminal *vt.Emulator
	written  strings.Builder
	hidden   bool
}

// newScreen returns an empty screen. The caller must call Close.
func newScreen(width, height int) *screen {
	s := &screen{changed: make(chan struct{}), terminal: vt.NewEmulator(width, height)}
	s.terminal.SetCallbacks(vt.Callbacks{CursorVisibility: func(visible bool) { s.hidden = !visible }})
	go func() { _, _ = io.Copy(io.Discard, s.terminal) }() // discard the responses to terminal queries
	return s
}

// Close stops the goroutine that discards responses. The screen can still be read. Close closes
// the pipe of the responses, because Emulator.Close has a race with Read.
func (s *screen) Close() error { return s.terminal.InputPipe().(io.Closer).Close() }

func (s *screen) Resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminal.Resize(width, height)
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Write(b)
	n, err := s.terminal.Write(b)
	close(s.changed)
	s.changed = make(chan struct{})
	return n, err
}

// Cells returns a copy of the visible cells, by row.
func (s *screen) Cells() [][]cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	cells := make([][]cell, s.terminal.Height())
	for y := range cells {
		for x := range s.terminal.Width() {
			cells[y] = append(cells[y], cellOf(s.terminal.CellAt(x, y)))
		}
	}
	return cells
}

func cellOf(c *uv.Cell) cell {
	if c == nil {
		return cell{text: " "}
	}
	has := func(attribute uint8) bool { return c.Style.Attrs&attribute != 0 }
	return cell{c.Content, style{
		bold: has(uv.AttrBold), faint: has(uv.AttrFaint), reverse: has(uv.AttrReverse), color: indexOf(c.Style.Fg),
	}}
}

func indexOf(c color.Color) int {
	if basic, ok := c.(ansi.BasicColor); ok {
		return int(basic)%8 + 1
	}
	return 0
}

// String returns the visible text without styles.
func (s *screen) String() string {
	var text strings.Builder
	for _, row := range s.Cells() {
		var line strings.Builder
		for _, c := range row {
			line.WriteString(c.text)
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

// Written returns everything that was written.
func (s *screen) Written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// Restored reports whether the main screen is active and the cursor visible.
func (s *screen) Restored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.terminal.IsAltScreen() && !s.hidden
}

// Changed returns a channel that is closed by the next Write.
func (s *screen) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func TestScreenShowsText(t *testing.T) {
	s := newScreen(8, 4)
	defer func() { assert.NoError(t, s.Close()) }()
	for _, b := range []byte("\x1b]2;title\x1b\\日本a\x1b[5Gb\r\n\x1b[6n\x1b[1;31mred\x1b[m\x1b[?25l\x1b[?1049h") { // splits escape sequences and characters
		_, err := s.Write([]byte{b})
		require.NoError(t, err)
	}
	assert.False(t, s.Restored())
	_, err := s.Write([]byte("\x1b[?1049l\x1b[?25h"))
	require.NoError(t, err)
	assert.True(t, s.Restored())
	assert.Equal(t, "日本b\nred\n\n\n", s.String())
	assert.Equal(t, cell{text: "r", style: style{bold: true, color: 2}}, s.Cells()[1][0])
}
