package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A chart shows the table of costs in docs/performance.md as bars. There is one bar for each
// combination of a workload and a client.
type chart struct {
	clients   []string // the others are compared with the first client
	workloads []bars
}

// bars contains the bars of one workload, in the order of the clients.
type bars struct {
	name   string
	cpu    []float64 // CPU time per call in microseconds
	labels []string  // the texts in the cells of the table
}

var errNoTable = errors.New("no cost table: its first cell must be empty, and its rows must contain a time in µs and ratios with ×")

// readChart finds the table in a Markdown text. The cells of the first client are times in µs, and
// the others are ratios with ×. If a cell is a range, the bar shows the middle of the range. Rows
// with other cells are ignored.
func readChart(markdown string) (c chart, err error) {
	for line := range strings.Lines(markdown) {
		cells := cellsOf(line)
		switch {
		case len(cells) > 2 && cells[0] == "" && len(c.workloads) == 0:
			c.clients = cells[1:]
		case len(c.clients) > 0 && len(cells) == len(c.clients)+1:
			if b, ok := readBars(cells); ok {
				c.workloads = append(c.workloads, b)
			}
		case len(c.workloads) > 0:
			return c, nil
		}
	}
	if len(c.workloads) == 0 {
		return chart{}, errNoTable
	}
	return c, nil
}

// cellsOf returns the cells of a table row. It returns nil if the line is not a table row.
func cellsOf(line string) (cells []string) {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	for cell := range strings.SplitSeq(line[1:len(line)-1], "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func readBars(cells []string) (b bars, ok bool) {
	b = bars{name: cells[0], labels: cells[1:]}
	base, isTime := strings.CutSuffix(cells[1], " µs")
	first, err := strconv.ParseFloat(base, 64)
	if !isTime || err != nil {
		return b, false
	}
	b.cpu = []float64{first}
	for _, cell := range cells[2:] {
		text, isRatio := strings.CutSuffix(cell, " ×")
		low, high, isRange := strings.Cut(text, "–")
		if !isRange {
			high = low
		}
		least, err := strconv.ParseFloat(low, 64)
		most, err2 := strconv.ParseFloat(high, 64)
		if !isRatio || err != nil || err2 != nil {
			return b, false
		}
		b.cpu = append(b.cpu, first*(least+most)/2)
	}
	return b, true
}

// A palette contains the colors of a picture. They are the colors of text, of secondary text, of the
// first client's bars, and of the other bars, which use two colors in turn.
type palette struct {
	text, muted, first string
	others             []string
}

// palettes contains the colors for light and dark pages. The background of a picture is transparent.
var palettes = map[string]palette{
	"light": {"#1f2328", "#59636e", "#1a7f37", []string{"#818b98", "#b1bac4"}},
	"dark":  {"#f0f6fc", "#9198a1", "#3fb950", []string{"#6e7681", "#484f58"}},
}

// These sizes are in pixels.
const (
	chartWidth = 760
	chartLeft  = 165 // the left end of the bars
	chartMost  = 480 // the length of the longest bar
	chartTop   = 44  // the top of the first workload
	barHeight  = 14
	barStep    = 18
	groupGap   = 30
)

// svg returns the chart as an SVG picture. The output is deterministic.
func (c chart) svg(p palette) []byte {
	most := 0.0
	for _, b := range c.workloads {
		for _, cpu := range b.cpu {
			most = max(most, cpu)
		}
	}
	group := len(c.clients)*barStep + groupGap
	height := chartTop + len(c.workloads)*group - groupGap/2
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="12">`+"\n", chartWidth, height)
	fmt.Fprintf(&out, "<title>%s</title>\n", html.EscapeString(c.describe()))
	label := func(x, y int, color, attributes, text string) {
		fmt.Fprintf(&out, `<text x="%d" y="%d" fill="%s"%s>%s</text>`+"\n", x, y, color, attributes, html.EscapeString(text))
	}
	label(0, 16, p.text, ` font-size="14" font-weight="600"`, "CPU for each call: shorter is better")
	for i, b := range c.workloads {
		y := chartTop + i*group
		label(0, y+1, p.text, ` font-weight="600"`, b.name)
		for k, cpu := range b.cpu {
			top, color, weight := y+8+k*barStep, p.first, ` font-weight="600"`
			if k > 0 {
				color, weight = p.others[(k-1)%len(p.others)], ""
			}
			width := max(1, cpu/most*chartMost)
			label(chartLeft-8, top+11, p.muted, ` text-anchor="end"`, c.clients[k])
			fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n", chartLeft, top, width, barHeight, color)
			label(chartLeft+int(width)+8, top+11, p.text, weight, b.labels[k])
		}
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// describe returns the content of the chart as text, for the picture's description.
func (c chart) describe() string {
	var all []string
	for _, b := range c.workloads {
		var parts []string
		for k, text := range b.labels {
			parts = append(parts, c.clients[k]+" "+text)
		}
		all = append(all, b.name+": "+strings.Join(parts, ", "))
	}
	return "CPU for each call. " + strings.Join(all, "; ")
}

// draw draws the table in a Markdown file. It writes the pictures bench-light.svg and bench-dark.svg
// to a directory.
func draw(markdown, dir string) error {
	text, err := os.ReadFile(markdown)
	if err != nil {
		return err
	}
	c, err := readChart(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", markdown, err)
	}
	for name, p := range palettes {
		if err := os.WriteFile(chartFile(dir, name), c.svg(p), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func chartFile(dir, palette string) string { return filepath.Join(dir, "bench-"+palette+".svg") }
