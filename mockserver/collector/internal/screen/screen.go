// Package screen emulates a terminal for tests and screenshots, with
// github.com/charmbracelet/x/vt.
package screen

import (
	"image/color"
	"io"
	"strings"
	"sync"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// A Cell is one column of a row.
type Cell struct {
	Text  string // "" in the second column of a wide character
	Style Style
}

// A Style is the appearance of a cell.
type Style struct {
	Bold, Faint, Reverse bool
	Color                int // one of the eight ANSI colors, from 1; 0 is the terminal's default
}

// A Screen emulates a terminal. Its methods may be called from many goroutines.
type Screen struct {
	mu       sync.Mutex // guards all fields
	changed  chan struct{}
	terminal *vt.Emulator
	written  strings.Builder
	hidden   bool
}

// New returns an empty screen. The caller must call Close.
func New(width, height int) *Screen {
	s := &Screen{changed: make(chan struct{}), terminal: vt.NewEmulator(width, height)}
	s.terminal.SetCallbacks(vt.Callbacks{CursorVisibility: func(visible bool) { s.hidden = !visible }})
	go func() { _, _ = io.Copy(io.Discard, s.terminal) }() // discard the responses to terminal queries
	return s
}

// Close stops the goroutine that discards responses. The screen can still be read. Close closes
// the pipe of the responses, because Emulator.Close has a race with Read.
func (s *Screen) Close() error { return s.terminal.InputPipe().(io.Closer).Close() }

func (s *Screen) Resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminal.Resize(width, height)
}

// Write implements io.Writer.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Write(b)
	n, err := s.terminal.Write(b)
	close(s.changed)
	s.changed = make(chan struct{})
	return n, err
}

// Cells returns a copy of the visible cells, by row.
func (s *Screen) Cells() [][]Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	cells := make([][]Cell, s.terminal.Height())
	for y := range cells {
		for x := range s.terminal.Width() {
			cells[y] = append(cells[y], cellOf(s.terminal.CellAt(x, y)))
		}
	}
	return cells
}

func cellOf(c *uv.Cell) Cell {
	if c == nil {
		return Cell{Text: " "}
	}
	has := func(attribute uint8) bool { return c.Style.Attrs&attribute != 0 }
	return Cell{c.Content, Style{
		Bold: has(uv.AttrBold), Faint: has(uv.AttrFaint), Reverse: has(uv.AttrReverse), Color: indexOf(c.Style.Fg),
	}}
}

func indexOf(c color.Color) int {
	if basic, ok := c.(ansi.BasicColor); ok {
		return int(basic)%8 + 1
	}
	return 0
}

// String returns the visible text without styles.
func (s *Screen) String() string {
	var text strings.Builder
	for _, row := range s.Cells() {
		var line strings.Builder
		for _, c := range row {
			line.WriteString(c.Text)
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

// Written returns everything that was written.
func (s *Screen) Written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// Restored reports whether the main screen is active and the cursor visible.
func (s *Screen) Restored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.terminal.IsAltScreen() && !s.hidden
}

// Changed returns a channel that is closed by the next Write.
func (s *Screen) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
