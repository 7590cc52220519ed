package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// figures is the content of figures.json. All performance figures in the documents come from this
// file.
type figures struct {
	// How contains descriptions of the measurements, keyed by name.
	How map[string]string `json:"how"`
	// Figures contains the measured values, keyed by name.
	Figures map[string]figure `json:"figures"`
	// Blocks contains parts of documents, keyed by name. A block is a list of Markdown lines, in
	// which {NAME} stands for a figure.
	Blocks map[string][]string `json:"blocks"`
}

type figure struct {
	Value string `json:"value"`
	Unit  string `json:"unit,omitempty"`
	Date  string `json:"date"` // the day of the measurement as 2006-01-02, or only the month
	How   string `json:"how"`  // a key of figures.How
}

func (f figure) String() string { return strings.TrimSpace(f.Value + " " + f.Unit) }

func readFigures(file string) (f figures, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return f, fmt.Errorf("%s: %w", file, err)
	}
	for name, v := range f.Figures {
		if v.Value == "" || v.Date == "" || f.How[v.How] == "" {
			return f, fmt.Errorf("%s: figure %q needs a value, a date and the name of a measurement", file, name)
		}
	}
	return f, nil
}

func (f figures) write(file string) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(f); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

var (
	placeholder = regexp.MustCompile(`\{([^{}]+)\}`)
	marked      = regexp.MustCompile(`(?s)(<!-- figures:(\S+) -->)(.*?)(<!-- /figures -->)`)
)

// block returns the Markdown of the block with a name, or of the figure with that name.
func (f figures) block(name string) (string, error) {
	lines, ok := f.Blocks[name]
	if !ok {
		v, ok := f.Figures[name]
		if !ok {
			return "", fmt.Errorf("figures.json has no block or figure %q", name)
		}
		return v.String(), nil
	}
	var missing error
	text := placeholder.ReplaceAllStringFunc(strings.Join(lines, "\n"), func(match string) string {
		v, ok := f.Figures[match[1:len(match)-1]]
		if !ok {
			missing = fmt.Errorf("block %q of figures.json: no figure %s", name, match)
		}
		return v.String()
	})
	return "\n" + text + "\n", missing
}

// render returns the document with the current figures. It replaces the text between markers:
//
//	<!-- figures:NAME -->…<!-- /figures -->
func (f figures) render(document string) (string, error) {
	var failed error
	rendered := marked.ReplaceAllStringFunc(document, func(match string) string {
		parts := marked.FindStringSubmatch(match)
		text, err := f.block(parts[2])
		if err != nil {
			failed = err
		}
		return parts[1] + text + parts[4]
	})
	return rendered, failed
}

// figureDocuments returns the documents below root that can contain figures.
func figureDocuments(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	return append(files, filepath.Join(root, "README.md")), err
}

// renderAll writes the figures of bench/figures.json to the documents below root, and draws their chart.
func renderAll(root string) error {
	f, err := readFigures(filepath.Join(root, "bench", "figures.json"))
	if err != nil {
		return err
	}
	c, err := f.chart()
	if err != nil {
		return err
	}
	for name, picture := range c.pictures() {
		if err := os.WriteFile(filepath.Join(root, "docs", name), picture, 0o644); err != nil {
			return err
		}
	}
	files, err := figureDocuments(root)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rendered, err := f.render(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if rendered == string(text) {
			continue
		}
		if err := os.WriteFile(file, []byte(rendered), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// update replaces figures by new measurements. It ignores measurements that the documents do not
// use.
func (f figures) update(measured map[string]string, now time.Time) {
	for name, text := range measured {
		v, ok := f.Figures[name]
		if !ok {
			continue
		}
		v.Value, v.Unit, _ = strings.Cut(text, " ")
		v.Date = now.UTC().Format(time.DateOnly)
		f.Figures[name] = v
	}
}
