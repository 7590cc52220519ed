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

const table = `
| other | table |
|---|---|
| a | 1 µs |

text

| | ours | theirs <v3> |
|---|--:|--:|
| L, batches of 20 | 3.5 µs | 10 × |
| S & more | 0.25 µs | 4 × |
| allocations | 0.09, none in the caller | 67 |
| connections | 4 | 2,202 |

| | later | table |
|---|--:|--:|
| not read | 1 µs | 2 × |
`

func TestReadChart(t *testing.T) {
	c, err := readChart(table)
	if err != nil {
		t.Fatal(err)
	}
	want := chart{
		clients: []string{"ours", "theirs <v3>"},
		workloads: []bars{
			{"L, batches of 20", []float64{3.5, 35}, []string{"3.5 µs", "10 ×"}},
			{"S & more", []float64{0.25, 1}, []string{"0.25 µs", "4 ×"}},
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
	for _, text := range []string{"", "no table", "| a | b | c |\n|---|---|---|\n| x | 1 µs | 2 × |\n", "| | a | b |\n|---|---|---|\n| x | 1 ms | 2 × |\n"} {
		if _, err := readChart(text); !errors.Is(err, errNoTable) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBarsAreToScale(t *testing.T) {
	c, err := readChart(table)
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
	if !strings.Contains(string(picture), "theirs &lt;v3&gt; 10 ×") {
		t.Errorf("it does not say what it shows: %s", picture)
	}
}

// The pictures in docs/performance.md and README.md show the table in docs/performance.md.
func TestPicturesMatchTable(t *testing.T) {
	text, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	c, err := readChart(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range palettes {
		drawn, err := os.ReadFile(chartFile("../docs", name))
		if err != nil || !bytes.Equal(drawn, c.svg(p)) {
			t.Errorf("%s does not show the table in docs/performance.md: run make chart (%v)", chartFile("docs", name), err)
		}
	}
}
