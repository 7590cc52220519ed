package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/internal/v3program/capture"
)

var update = flag.Bool("update", false, "write what version 3 sends to ../internal/v3program/testdata")

const (
	ourPath = `"github.com/seed-45eadc4a/analytics-go/compat/v3"`
	v3Path  = `"github.com/segmentio/analytics-go/v3"`
)

// The programs of internal/v3program, built with version 3 in place of compat/v3, send
// what the files say that compat/v3 is tested against.
func TestVersion3SendsWhatTheGoldensSay(t *testing.T) {
	if out, err := exec.Command("go", "env", "GOWORK").Output(); err != nil || len(bytes.TrimSpace(out)) == 0 {
		t.Skip("the programs are in another module, and there is no workspace")
	}
	program := buildWithVersion3(t)
	for _, name := range []string{"backend", "calls", "cli", "gateway", "import", "shop", "telemetry", "ticker"} {
		t.Run(name, func(t *testing.T) {
			var collector capture.Collector
			srv := httptest.NewServer(&collector)
			defer srv.Close()
			endpoint := srv.URL
			if out, err := exec.CommandContext(t.Context(), program, name, endpoint).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, err := collector.Calls()
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("..", "internal", "v3program", "testdata", name+".json")
			if *update {
				if err := os.WriteFile(golden, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("version 3 sent\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// buildWithVersion3 builds the programs with another import path.
func buildWithVersion3(t *testing.T) string {
	dir, err := filepath.Abs("../internal/v3program")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	temp := t.TempDir()
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(temp, filepath.Base(file))
		if err := os.WriteFile(changed, []byte(strings.ReplaceAll(string(source), ourPath, v3Path)), 0o666); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[file] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	replaced := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(replaced, text, 0o666); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(temp, "v3program")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", replaced, "-o", program, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
