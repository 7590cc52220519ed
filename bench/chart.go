package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html"
	"strconv"
	"strings"
)

// A chart shows the CPU rows of the block "client" in figures.json as bars. There is one bar for each
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

// chart returns the chart of the figures. The figures of the first client are times in µs, and the
// others are ratios. If a ratio is a range, the bar shows the middle of the range.
func (f figures) chart() (c chart, err error) {
	for i, row := range f.Blocks["client"] {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if i == 0 {
			c.clients = cells
		}
		if !strings.Contains(row, "{cpu/") {
			continue
		}
		b := bars{name: cells[0]}
		unit := 1.0
		for _, cell := range cells[1:] {
			v := f.Figures[strings.Trim(cell, "{}")]
			low, high, _ := strings.Cut(v.Value, "–")
			least, bad := strconv.ParseFloat(low, 64)
			most, bad2 := strconv.ParseFloat(cmp.Or(high, low), 64)
			err = errors.Join(err, bad, bad2)
			b.cpu, b.labels = append(b.cpu, unit*(least+most)/2), append(b.labels, v.String())
			unit = b.cpu[0]
		}
		c.workloads = append(c.workloads, b)
	}
	if len(c.workloads) == 0 {
		err = errors.Join(err, errors.New(`figures.json: the block "client" has no row with {cpu/…}`))
	}
	return c, err
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

// pictures returns the pictures of the chart, keyed by the names of their files in docs.
func (c chart) pictures() map[string][]byte {
	all := map[string][]byte{}
	for name, p := range palettes {
		all["bench-"+name+".svg"] = c.svg(p)
	}
	return all
}
