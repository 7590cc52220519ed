package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Table has rows of cells. Write escapes control characters and omits empty columns.
type Table struct {
	Header []string // may be nil
	rows   [][]string
	exact  []bool // whether a column contains numbers, which are not truncated
}

// Row adds a row.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = text.Plain(fmt.Sprint(cell))
		if len(t.exact) <= i {
			t.exact = append(t.exact, true)
		}
		switch cell.(type) {
		case int, int64, float64:
		default:
			t.exact[i] = false
		}
	}
	t.rows = append(t.rows, row)
}

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// narrowest is the minimum width of a truncated column.
const narrowest = 6

// Write writes the table. If most is positive, it truncates cells so that the table fits in most
// columns of the screen. It reports whether it truncated any cell.
func (t *Table) Write(out io.Writer, most int) (cut bool, err error) {
	kept := t.kept()
	lines := make([][]string, 0, 1+len(t.rows))
	if t.Header != nil {
		lines = append(lines, t.Header)
	}
	lines = append(lines, t.rows...)
	widths := make([]int, len(kept))
	for _, line := range lines {
		for n, i := range kept {
			widths[n] = max(widths[n], Width(at(line, i)))
		}
	}
	if most > 0 {
		cut = t.shrink(widths, kept, most)
	}
	var text strings.Builder
	for _, line := range lines {
		var b strings.Builder
		for n, i := range kept {
			cell := Fit(at(line, i), widths[n])
			b.WriteString(cell)
			if n < len(kept)-1 {
				b.WriteString(strings.Repeat(" ", widths[n]-Width(cell)+2))
			}
		}
		text.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	}
	_, err = io.WriteString(out, text.String())
	return cut, err
}

// kept returns the indexes of the columns that are not empty.
func (t *Table) kept() (kept []int) {
	for i := range max(len(t.Header), len(t.exact)) {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return at(row, i) != "" }) {
			kept = append(kept, i)
		}
	}
	return kept
}

// shrink repeatedly reduces the widest column until the table fits.
func (t *Table) shrink(widths, kept []int, most int) (cut bool) {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > most; total-- {
		widest := -1
		for n, w := range widths {
			if (kept[n] >= len(t.exact) || !t.exact[kept[n]]) && w > narrowest && (widest < 0 || w > widths[widest]) {
				widest = n
			}
		}
		if widest < 0 {
			return cut
		}
		widths[widest]--
		cut = true
	}
	return cut
}

func at(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}
