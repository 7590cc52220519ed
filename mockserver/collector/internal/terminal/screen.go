package terminal

import (
	"io"
	"os"

	"github.com/charmbracelet/x/term"
)

// Is reports whether a file is a terminal.
func Is(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// CanDraw reports whether a terminal can be drawn on: it can move its cursor.
func CanDraw(out io.Writer) bool {
	kind := os.Getenv("TERM")
	return Is(out) && kind != "dumb" && (kind != "" || os.PathSeparator == '\\') // Windows sets none
}

// Colours reports whether to write in colours. People say with NO_COLOR that they want
// none.
func Colours(out io.Writer) bool { return CanDraw(out) && os.Getenv("NO_COLOR") == "" }

// Columns returns how wide the terminal is that out is; 0 where it is none.
func Columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return columns
}
