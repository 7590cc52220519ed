package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

var charted = figures{
	Figures: map[string]figure{
		"cpu/L/ours": {Value: "3.5", Unit: "µs"}, "cpu/L/v3": {Value: "8–12", Unit: "×"},
		"cpu/S/ours": {Value: "0.25", Unit: "µs"}, "cpu/S/v3": {Value: "4", Unit: "×"},
	},
	Blocks: map[string][]string{"client": {
		"| | ours | theirs <v3> |", "|---|--:|--:|",
		"| L, batches of 20 | {cpu/L/ours} | {cpu/L/v3} |", "| S & more | {cpu/S/ours} | {cpu/S/v3} |", "| connections | {connections} | |",
	}},
}

func TestChart(t *testing.T) {
	c, err := charted.chart()
	if err != nil {
		t.Fatal(err)
	}
	want := chart{
		clients: []string{"ours", "theirs <v3>"},
		workloads: []bars{
			{"L, batches of 20", []float64{3.5, 35}, []string{"3.5 µs", "8–12 ×"}},
			{"S & more", []float64{0.25, 1}, []string{"0.25 µs", "4 ×"}},
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
	if _, err := (figures{Blocks: charted.Blocks}).chart(); err == nil {
		t.Error("missing figures are not reported")
	}
}

func TestBarsAreToScale(t *testing.T) {
	c, err := charted.chart()
	if err != nil {
		t.Fatal(err)
	}
	picture := c.svg(palettes["light"])
	var widths []string
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			for _, a := range e.Attr {
				if a.Name.Local == "width" {
					widths = append(widths, a.Value)
				}
			}
		}
	}
	if want := []string{"48.0", "480.0", "3.4", "13.7"}; !reflect.DeepEqual(widths, want) {
		t.Errorf("widths %v, want %v", widths, want)
	}
	if !bytes.Equal(picture, c.svg(palettes["light"])) {
		t.Error("drawn again it differs")
	}
	if !strings.Contains(string(picture), "theirs &lt;v3&gt; 8–12 ×") {
		t.Errorf("the picture has no description: %s", picture)
	}
}

func TestPicturesMatchFigures(t *testing.T) {
	f, err := readFigures("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.chart()
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range c.pictures() {
		drawn, err := os.ReadFile("../docs/" + name)
		if err != nil || !bytes.Equal(drawn, picture) {
			t.Errorf("docs/%s differs from figures.json: run make figures (%v)", name, err)
		}
	}
}
