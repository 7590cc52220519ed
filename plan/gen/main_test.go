package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOutputCreatesDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "internal", "events", "events.go")
	if err := run("../testdata/shop.yaml", "events", file, io.Discard); err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(code), "package events") {
		t.Errorf("%v: %s", err, code)
	}
}
