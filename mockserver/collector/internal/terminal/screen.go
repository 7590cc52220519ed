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

// CanDraw reports whether out is a terminal that can move its cursor.
func CanDraw(out io.Writer) bool {
	kind := os.Getenv("TERM")
	return Is(out) && kind != "dumb" && (kind != "" || os.PathSeparator == '\\') // Windows does not set TERM
}

// Colors reports whether to use colors. NO_COLOR turns them off.
func Colors(out io.Writer) bool { return CanDraw(out) && os.Getenv("NO_COLOR") == "" }

// Columns returns the width of a terminal, or 0 if out is not a terminal.
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
