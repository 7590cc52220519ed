package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the calls of version 3 to the golden files of compat/v3")

// The tests of compat/v3 compare calls with golden files. This test checks that the golden files
// contain the calls that the same programs send with version 3.
func TestVersion3SendsTheGoldenCalls(t *testing.T) {
	const programs = "../compat/v3/testdata/program/"
	program := buildWithVersion3(t, programs)
	files, err := filepath.Glob(programs + "*.json")
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	for _, golden := range files {
		name := strings.TrimSuffix(filepath.Base(golden), ".json")
		t.Run(name, func(t *testing.T) {
			got, err := exec.CommandContext(t.Context(), program, name).Output()
			if err != nil {
				t.Fatal(err)
			}
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

// buildWithVersion3 builds the programs of a directory with version 3 of the library.
func buildWithVersion3(t *testing.T, dir string) string {
	files, err := filepath.Glob(dir + "*.go")
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	program := filepath.Join(temp, "program.exe")
	args := []string{"build", "-o", program}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(temp, filepath.Base(file))
		text := strings.ReplaceAll(string(source), "github.com/seed-45eadc4a/analytics-go/compat/v3", "github.com/segmentio/analytics-go/v3")
		if err := os.WriteFile(changed, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(args, changed)
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
