package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// unpack writes a module to a directory, makes that the current one, and returns
// what the module's archive wants.
func unpack(t *testing.T, archive *txtar.Archive) (want string) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	t.Chdir(t.TempDir())
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = string(f.Data)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

func TestCount(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/count.txtar")
	if err != nil {
		t.Fatal(err)
	}
	want := unpack(t, archive)
	var got bytes.Buffer
	if ok, err := run(&got, "layers", []string{"."}, -1, true); err != nil || !ok {
		t.Fatalf("run: %v, %v", ok, err)
	}
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

// small is a module whose lower file uses its entry.
const small = `
-- go.mod --
module example.org/small

go 1.26
-- layers --
.
-- a.go --
// Package small is one.
//
// # Files
//
//  1. a.go: the entry
//  2. b.go: below
package small

func a() {}
-- b.go --
package small

func b() { a() }
`

func TestCheck(t *testing.T) {
	six := ""
	for _, name := range []string{"c", "d", "e", "f", "g", "h"} {
		six += "-- more/" + name + ".go --\npackage more\n"
	}
	for name, test := range map[string]struct {
		change func(string) string
		limit  int
		want   string // in the output or the error; nothing where the check passes
	}{
		"within the limit": {limit: 1},
		"beyond the limit": {limit: 0, want: "1 names run upwards, 1 more than may"},
		"no layer": {
			change: func(s string) string { return strings.Replace(s, "-- layers --\n.", "-- layers --\nother", 1) },
			want:   ". stands in no layer",
		},
		"a large package without an order": {
			change: func(s string) string { return strings.Replace(s, "layers --\n.", "layers --\n./...", 1) + six },
			limit:  1,
			want:   "more has 6 files and lists no order",
		},
		"a file that is not listed": {
			change: func(s string) string { return strings.Replace(s, "//  2. b.go: below\n", "", 1) },
			want:   "b.go is not in the list of files",
		},
		"a listed file that is gone": {
			change: func(s string) string { return strings.Replace(s, "2. b.go:", "2. b.go, c.go:", 1) },
			want:   "c.go is in the list of files, but not in the package",
		},
		"code that does not compile": {
			change: func(s string) string { return strings.Replace(s, "{ a() }", "{ c() }", 1) },
			want:   "do not compile",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := small
			if test.change != nil {
				text = test.change(text)
			}
			unpack(t, txtar.Parse([]byte(text)))
			var out bytes.Buffer
			ok, err := run(&out, "layers", []string{"."}, test.limit, false)
			if err != nil {
				out.WriteString(err.Error())
			}
			if passed := ok && err == nil; passed != (test.want == "") {
				t.Errorf("the check passed: %v\n%s", passed, out.String())
			}
			if !strings.Contains(out.String(), test.want) {
				t.Errorf("got:\n%s\nwant: %s", out.String(), test.want)
			}
		})
	}
}

func TestFileOrder(t *testing.T) {
	for name, test := range map[string]struct {
		doc     string
		want    []string
		wantErr string
	}{
		"no list":             {doc: "Package p is one.\n"},
		"a list elsewhere":    {doc: "# Steps\n\n 1. a.go: first\n"},
		"a list":              {doc: "# Files\n\n 1. b.go: first\n 2. a.go, c_linux.go: second\n", want: []string{"b.go", "a.go", "c_linux.go"}},
		"text before a list":  {doc: "# Files\n\nFrom the top:\n\n 1. b.go: first\n", want: []string{"b.go"}},
		"bullets":             {doc: "# Files\n\n  - a.go: first\n", wantErr: "not of the form"},
		"no colon":            {doc: "# Files\n\n 1. a.go first\n", wantErr: "not of the form"},
		"no name of a file":   {doc: "# Files\n\n 1. the entry: first\n", wantErr: "not the name of a file"},
		"the same file twice": {doc: "# Files\n\n 1. a.go: first\n 2. a.go: second\n", wantErr: "a.go twice"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fileOrder(test.doc)
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestLayer(t *testing.T) {
	r, err := parseLayers("a/... b # low\n\na/x\n# nothing\n./...\n")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{"a": 0, "a/y/z": 0, "b": 0, "a/x": 1, ".": 2, "b/c": 2, "ab": 2} {
		if got, found := r.layer(dir); !found || got != want {
			t.Errorf("%s is in layer %d (%v), want %d", dir, got, found, want)
		}
	}
	if _, err := parseLayers("a\n./b\n"); err == nil {
		t.Error("a pattern that matches nothing was taken")
	}
}
