// Command gen generates Go types from a tracking plan. Package generate describes the
// output.
//
//	//go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -package events -o events.go plan.yaml
//
// To add the command to go.mod:
//
//	go get -tool github.com/seed-45eadc4a/analytics-go/plan/gen
//
// Without -o, gen writes to standard output.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-45eadc4a/analytics-go/plan"
	"github.com/seed-45eadc4a/analytics-go/plan/generate"
)

func main() {
	packageName := flag.String("package", generate.Package, "package `name`")
	output := flag.String("o", "", "write to `file` instead of standard output")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: gen [-package name] [-o file] plan.yaml")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *packageName, *output, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, packageName, output string, stdout io.Writer) error {
	p, err := plan.Load(file)
	if err != nil {
		return err
	}
	for _, w := range p.Warnings() {
		fmt.Fprintln(os.Stderr, "warning:", w)
	}
	text, err := generate.Events(p, packageName)
	if err != nil {
		return err
	}
	if output == "" {
		_, err = stdout.Write(text)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	return os.WriteFile(output, text, 0o644)
}
