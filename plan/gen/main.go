// Command gen writes Go for a tracking plan: a type for each event, with which a call that is
// not as planned does not compile. Package generate says what the types are.
//
//	//go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -package events -o events.go plan.yaml
//
// It stays in go.mod by
//
//	go get -tool github.com/seed-45eadc4a/analytics-go/plan/gen
//
// Without -o it writes to its standard output. What it generates depends on the plan alone.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed-45eadc4a/analytics-go/plan"
	"github.com/seed-45eadc4a/analytics-go/plan/generate"
)

func main() {
	packageName := flag.String("package", generate.Package, "the `name` of the package")
	output := flag.String("o", "", "the `file` to write, instead of the standard output")
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
	return os.WriteFile(output, text, 0o644)
}
