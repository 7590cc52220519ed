package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// table prints a table without its empty columns, at most as wide as the terminal. names contains the
// names of the columns, separated by commas. Instead of a table without rows, table prints the text
// ifEmpty, unless that is empty.
func table(out *printer, ifEmpty, names string, print func(row func(cells ...any))) {
	var g grid
	g.header(names)
	print(g.row)
	if len(g.rows) == 1 && ifEmpty != "" {
		fmt.Fprintln(out, ifEmpty)
		return
	}
	text, cut := g.format(out.columns)
	out.WriteString(text)
	if cut {
		fmt.Fprintln(out, ansi.NewStyle().Faint().Styled("truncated to the width of the terminal: use --output jsonl for full values"))
	}
}

// columnsOf returns the width of a terminal. It returns 0 for other files.
func columnsOf(out io.Writer) (columns int) {
	if f, ok := out.(*os.File); ok {
		columns, _, _ = term.GetSize(f.Fd())
	}
	return columns
}

// section prints a table and an empty line. It prints nothing if there are no rows.
func section(out *printer, rows int, columns string, print func(row func(cells ...any))) {
	if rows > 0 {
		table(out, "", columns, print)
		fmt.Fprintln(out)
	}
}

// A grid contains the cells of a table. All rows have the same length.
type grid struct {
	rows  [][]string // the first row is the header
	texts []bool     // whether a column contains text; numbers are not truncated
}

func (g *grid) header(names string) {
	g.rows = [][]string{strings.Split(names, ",")}
	g.texts = make([]bool, len(g.rows[0]))
}

func (g *grid) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = plain(fmt.Sprint(cell))
		switch cell.(type) {
		case int, int64, float64:
		default:
			g.texts[i] = true
		}
	}
	g.rows = append(g.rows, row)
}

// narrowest is the minimum width of a truncated column.
const narrowest = 6

// format aligns the columns. If limit is positive, it truncates the widest columns until the lines are at
// most limit wide. cut is true if it truncated a column.
func (g *grid) format(limit int) (text string, cut bool) {
	widths := make([]int, len(g.texts)) // 0 for an empty column
	total := -2
	for i := range widths {
		for _, row := range g.rows[1:] {
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], ansi.StringWidth(g.rows[0][i]))
			total += widths[i] + 2
		}
	}
	for ; limit > 0 && total > limit; total-- {
		widest := -1
		for i, w := range widths {
			if g.texts[i] && w > narrowest && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		cut = true
	}
	var lines strings.Builder
	for _, row := range g.rows {
		line := ""
		for i, w := range widths {
			if w > 0 {
				cell := ansi.Truncate(row[i], w, "…")
				line += cell + strings.Repeat(" ", w-ansi.StringWidth(cell)+2)
			}
		}
		lines.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return lines.String(), cut
}
