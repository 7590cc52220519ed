// Package screen is a terminal without a window: it obeys what programs write to one, and
// says what would be seen. Tests look at it, and pictures for documents are drawn of it.
package screen

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// A Cell is one place of the screen.
type Cell struct {
	Text  string // "" behind a wide character
	Style Style
}

// A Style is how a cell looks.
type Style struct {
	Bold, Faint, Reverse bool
	Colour               int // of the sixteen, from 1; 0: the terminal's own
}

// A Screen is what is seen. Its methods may be called from many goroutines.
type Screen struct {
	mu            sync.Mutex // guards what follows
	changed       chan struct{}
	width, height int
	cells         [][]Cell
	main          [][]Cell // what is beneath the alternate screen; nil where that is not shown
	row, column   int
	top, bottom   int // of the lines that scroll: from top to before bottom
	style         Style
	rest          []byte // of a sequence that has not ended
	written       strings.Builder
	hidden        bool
	unknown       []string
}

// New returns an empty screen.
func New(width, height int) *Screen {
	s := &Screen{changed: make(chan struct{})}
	s.Resize(width, height)
	return s
}

// Resize gives the screen another size, and empties it: programs draw it anew.
func (s *Screen) Resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width, s.height = width, height
	s.cells = s.blank()
	s.row, s.column = 0, 0
	s.top, s.bottom = 0, height
}

func (s *Screen) blank() [][]Cell {
	cells := make([][]Cell, s.height)
	for i := range cells {
		cells[i] = make([]Cell, s.width)
		for j := range cells[i] {
			cells[i][j].Text = " "
		}
	}
	return cells
}

// Write implements io.Writer.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Write(b)
	data := append(s.rest, b...)
	for len(data) > 0 {
		n := s.obey(data)
		if n == 0 {
			break
		}
		data = data[n:]
	}
	s.rest = append([]byte(nil), data...)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(b), nil
}

// obey does what stands at the beginning, and returns how long that is: 0 where it has not
// ended.
func (s *Screen) obey(data []byte) int {
	switch c := data[0]; {
	case c == 0x1b:
		return s.escape(data)
	case c == '\r':
		s.column = 0
	case c == '\n':
		s.down()
	case c == '\t':
		s.column = min(s.width-1, (s.column/8+1)*8)
	case c == '\b':
		s.column = max(0, s.column-1)
	case c < 0x20:
		s.unknown = append(s.unknown, fmt.Sprintf("%q", c))
	default:
		if !utf8.FullRune(data) {
			return 0
		}
		cluster, width := ansi.FirstGraphemeCluster(string(data), ansi.GraphemeWidth)
		s.put(cluster, width)
		return len(cluster)
	}
	return 1
}

// down goes to the next line, and scrolls where it is the last one that scrolls.
func (s *Screen) down() {
	if s.row == s.bottom-1 {
		s.scroll(s.top, -1)
	} else {
		s.row = min(s.row+1, s.height-1)
	}
}

// up goes to the line before, and scrolls where it is the first one that scrolls.
func (s *Screen) up() {
	if s.row == s.top {
		s.scroll(s.top, 1)
	} else {
		s.row = max(s.row-1, 0)
	}
}

// scroll moves the lines from one on down, or up where by is negative.
func (s *Screen) scroll(from, by int) {
	if from < s.top || from >= s.bottom {
		return
	}
	n := min(max(by, -by), s.bottom-from)
	part := append([][]Cell(nil), s.cells[from:s.bottom]...)
	if by > 0 {
		part = append(s.blank()[:n], part[:len(part)-n]...)
	} else {
		part = append(part[n:], s.blank()[:n]...)
	}
	copy(s.cells[from:s.bottom], part)
}

func (s *Screen) put(text string, width int) {
	if width == 0 {
		return
	}
	if s.column+width > s.width {
		s.column = 0
		s.down()
	}
	s.cells[s.row][s.column] = Cell{text, s.style}
	for i := 1; i < width; i++ {
		s.cells[s.row][s.column+i] = Cell{"", s.style}
	}
	s.column = s.column + width
}

// escape obeys a sequence.
func (s *Screen) escape(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case ']', 'P', '_': // to a bell, or ESC \
		text := string(data[2:])
		end, length := strings.IndexByte(text, 7), 1
		if i := strings.Index(text, "\x1b\\"); i >= 0 && (end < 0 || i < end) {
			end, length = i, 2
		}
		if end < 0 {
			return 0
		}
		return 2 + end + length
	case '[':
		end := 2
		for end < len(data) && (data[end] < 0x40 || data[end] > 0x7e) {
			end++
		}
		if end == len(data) {
			return 0
		}
		s.control(string(data[2:end]), data[end])
		return end + 1
	case 'M':
		s.up()
	case '=', '>':
	default:
		s.unknown = append(s.unknown, fmt.Sprintf("ESC %q", data[1]))
	}
	return 2
}

// control obeys CSI.
func (s *Screen) control(parameters string, final byte) {
	if strings.HasPrefix(parameters, "?") {
		s.mode(parameters[1:], final == 'h')
		return
	}
	if strings.ContainsAny(parameters, "<=>$ ") {
		return // asks for features
	}
	values := strings.Split(parameters, ";")
	number := func(i, otherwise int) int {
		if i < len(values) {
			if n, err := strconv.Atoi(values[i]); err == nil && n > 0 {
				return n
			}
		}
		return otherwise
	}
	if final == 'm' {
		s.graphics(values)
	} else if !s.move(final, number) && !s.edit(final, number) && !strings.ContainsRune("ncutq", rune(final)) {
		s.unknown = append(s.unknown, "CSI "+parameters+string(final))
	}
}

// move puts the cursor somewhere else.
func (s *Screen) move(final byte, number func(i, otherwise int) int) bool {
	row, column := s.row, s.column
	switch final {
	case 'H', 'f':
		row, column = number(0, 1)-1, number(1, 1)-1
	case 'd':
		row = number(0, 1) - 1
	case 'G', '`':
		column = number(0, 1) - 1
	case 'A':
		row -= number(0, 1)
	case 'B':
		row += number(0, 1)
	case 'C':
		column += number(0, 1)
	case 'D':
		column -= number(0, 1)
	case 'Z':
		column = (column - 1) / 8 * 8
	case 'r':
		s.top, s.bottom = min(number(0, 1), s.height)-1, min(number(1, s.height), s.height)
		row, column = 0, 0
	default:
		return false
	}
	s.row, s.column = min(max(row, 0), s.height-1), min(max(column, 0), s.width)
	return true
}

// edit changes what stands at the cursor, and behind or below it.
func (s *Screen) edit(final byte, number func(i, otherwise int) int) bool {
	n, at := number(0, 1), min(s.column, s.width)
	line := s.cells[s.row]
	switch final {
	case 'K':
		s.erase(s.row, at, s.width)
	case 'X':
		s.erase(s.row, at, min(s.width, at+n))
	case 'J':
		if number(0, 0) == 2 {
			s.cells = s.blank()
			break
		}
		s.erase(s.row, at, s.width)
		for i := s.row + 1; i < s.height; i++ {
			s.erase(i, 0, s.width)
		}
	case 'b':
		before := line[max(0, at-1)].Text
		for range min(n, s.width-at) {
			s.put(before, 1)
		}
	case 'P':
		n = min(n, s.width-at)
		s.cells[s.row] = append(append(line[:at:at], line[at+n:]...), s.blank()[0][:n]...)
	case '@':
		n = min(n, s.width-at)
		s.cells[s.row] = append(append(line[:at:at], s.blank()[0][:n]...), line[at:s.width-n]...)
	case 'L':
		s.scroll(s.row, n)
	case 'M':
		s.scroll(s.row, -n)
	case 'T':
		s.scroll(s.top, n)
	case 'S':
		s.scroll(s.top, -n)
	default:
		return false
	}
	return true
}

func (s *Screen) erase(row, from, to int) {
	for i := from; i < to; i++ {
		s.cells[row][i] = Cell{Text: " "}
	}
}

// mode sets or resets a private mode.
func (s *Screen) mode(mode string, on bool) {
	switch mode {
	case "25":
		s.hidden = !on
	case "1049":
		if on {
			s.main, s.cells = s.cells, s.blank()
		} else if s.main != nil {
			s.cells, s.main = s.main, nil
		}
	}
}

func (s *Screen) graphics(values []string) {
	for _, value := range values {
		n, _ := strconv.Atoi(value) // nothing is 0
		switch {
		case n == 0:
			s.style = Style{}
		case n == 1:
			s.style.Bold = true
		case n == 2:
			s.style.Faint = true
		case n == 7:
			s.style.Reverse = true
		case n == 22:
			s.style.Bold, s.style.Faint = false, false
		case n == 27:
			s.style.Reverse = false
		case n >= 30 && n < 38:
			s.style.Colour = n - 29
		case n == 39:
			s.style.Colour = 0
		default:
			s.unknown = append(s.unknown, "SGR "+value)
		}
	}
}

// Cells returns a copy of what is seen.
func (s *Screen) Cells() [][]Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	cells := make([][]Cell, len(s.cells))
	for i, row := range s.cells {
		cells[i] = append([]Cell(nil), row...)
	}
	return cells
}

// String returns what is seen, without colours.
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

// Written returns all that was written.
func (s *Screen) Written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// Unknown returns what was not understood.
func (s *Screen) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.unknown...)
}

// Restored reports whether the screen is as programs should leave it: the main one, with a
// cursor.
func (s *Screen) Restored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.main == nil && !s.hidden
}

// Changed returns a channel that is closed when something is written.
func (s *Screen) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
