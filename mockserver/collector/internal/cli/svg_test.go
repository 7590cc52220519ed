//go:build unix

package cli

import (
	"fmt"
	"html"
	"strings"
)

// A theme contains the colors of a terminal.
type theme struct {
	name             string
	background, text string
	faint            string
	frame            string
	colors           [8]string
}

var (
	light = theme{
		name: "light", background: "#ffffff", text: "#1f2328", faint: "#656d76", frame: "#d0d7de",
		colors: [8]string{"#1f2328", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b7c83", "#656d76"},
	}
	dark = theme{
		name: "dark", background: "#0d1117", text: "#e6edf3", faint: "#8d96a0", frame: "#30363d",
		colors: [8]string{"#8d96a0", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3"},
	}
)

// Sizes of a cell and of the margin, in pixels.
const (
	cellWidth, cellHeight = 8.4, 19
	margin                = 16
)

// svg returns a picture of a screen.
func (t theme) svg(cells [][]cell) string {
	w, h := float64(len(cells[0]))*cellWidth+2*margin, len(cells)*cellHeight+2*margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="collector dev on a terminal">`+"\n", w, h, w, h)
	fmt.Fprintf(&out, `<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n", w-1, h-1, t.background, t.frame)
	out.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace" font-size="14">` + "\n")
	for y, row := range cells {
		for x := 0; x < len(row); {
			end := x + 1
			for end < len(row) && (row[end].style == row[x].style || row[end].text == "") {
				end++
			}
			t.run(&out, row[x:end], x, y)
			x = end
		}
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String()
}

// run draws consecutive cells that have the same style.
func (t theme) run(out *strings.Builder, cells []cell, x, y int) {
	var text strings.Builder
	for _, c := range cells {
		text.WriteString(c.text)
	}
	left, top := margin+float64(x)*cellWidth, margin+y*cellHeight
	style, color := cells[0].style, t.text
	switch {
	case style.color > 0:
		color = t.colors[style.color-1]
	case style.faint:
		color = t.faint
	}
	if style.reverse {
		fmt.Fprintf(out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", left, top, float64(len(cells))*cellWidth, cellHeight, color)
		color = t.background
	}
	shown := strings.TrimRight(text.String(), " ")
	columns := len(cells) - (text.Len() - len(shown))
	trimmed := strings.TrimLeft(shown, " ")
	if trimmed == "" {
		return
	}
	columns -= len(shown) - len(trimmed)
	left += float64(len(shown)-len(trimmed)) * cellWidth
	weight := ""
	if style.bold {
		weight = ` font-weight="bold"`
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n",
		left, top+14, float64(columns)*cellWidth, color, weight, html.EscapeString(strings.ReplaceAll(trimmed, " ", "\u00a0"))) // browsers collapse spaces
}
