package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestDocumentsMatchFigures(t *testing.T) {
	f, err := readFigures("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := figureDocuments("..")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := f.render(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if rendered != string(text) {
			t.Errorf("%s differs from figures.json: change the file and run make figures", file)
		}
		blocks := marked.FindAllStringSubmatch(string(text), -1)
		if n := strings.Count(string(text), "<!-- figures:"); n != len(blocks) {
			t.Errorf("%s: %d of %d blocks are complete", file, len(blocks), n)
		}
		for _, b := range blocks {
			used[b[2]] = true
			for _, line := range f.Blocks[b[2]] {
				for _, name := range placeholder.FindAllStringSubmatch(line, -1) {
					used[name[1]] = true
				}
			}
		}
	}
	for name := range f.Blocks {
		if !used[name] {
			t.Errorf("no document has the block %q", name)
		}
	}
	for name := range f.Figures {
		if !used[name] {
			t.Errorf("no document has the figure %q", name)
		}
	}
}

func TestRenderReplacesBlocksAndFigures(t *testing.T) {
	f := figures{
		Figures: map[string]figure{"cpu/ours": {Value: "1.40", Unit: "µs"}, "lost": {Value: "0"}},
		Blocks:  map[string][]string{"table": {"| a | b |", "|---|---|", "| {cpu/ours} | {lost} |"}, "broken": {"{none}"}},
	}
	got, err := f.render("It takes <!-- figures:cpu/ours -->2 µs<!-- /figures -->.\n\n<!-- figures:table -->\n| old |\n<!-- /figures -->\nThe end: 2 µs.\n")
	want := "It takes <!-- figures:cpu/ours -->1.40 µs<!-- /figures -->.\n\n<!-- figures:table -->\n| a | b |\n|---|---|\n| 1.40 µs | 0 |\n<!-- /figures -->\nThe end: 2 µs.\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
	for _, name := range []string{"unknown", "broken"} {
		if _, err := f.render("<!-- figures:" + name + " --><!-- /figures -->"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestUpdateReplacesMeasuredFigures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	f := figures{
		How: map[string]string{"bench": "make bench"},
		Figures: map[string]figure{
			"cpu":  {Value: "1.40", Unit: "µs", Date: "2026-01-01", How: "bench"},
			"lost": {Value: "0", Date: "2026-01-01", How: "bench"},
		},
	}
	f.update(map[string]string{"cpu": "10–14 ×", "unused": "1 s"}, time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC))
	if err := f.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := readFigures(file)
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Figures["cpu"]; v != (figure{"10–14", "×", "2026-02-03", "bench"}) {
		t.Errorf("measured figure: %+v", v)
	}
	if v := got.Figures["lost"]; v.Date != "2026-01-01" || len(got.Figures) != 2 {
		t.Errorf("other figures changed: %+v", got.Figures)
	}
}

func TestFiguresNamePeerVersions(t *testing.T) {
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	f, err := readFigures("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(posthog-go|analytics-go)(?:/v3)? (v[1-9]\S*)`).FindAllStringSubmatch(string(module), -1) {
		for _, block := range []string{"client", "client-comparison"} {
			if want := m[1] + " " + m[2]; !strings.Contains(f.Blocks[block][0], want) {
				t.Errorf("block %q has %s; go.mod has %s: measure again with make bench BENCH='-record bench/figures.json', and change the heading", block, f.Blocks[block][0], want)
			}
		}
	}
}
