// Command arrows counts the references that run upwards: from what is used to what
// uses it.
//
//	arrows [-layers file] [-check n] [-v] [dir ...]
//
// It reads the packages of the modules in the directories (without their tests, as
// they are built on this system) and holds each use of a package-level name, a method
// or a field against two orders:
//
//   - Between packages, the layers of a text file, lowest first. A package uses what
//     stands in lower layers. Packages of one layer do not use each other.
//   - Within a package, the files in the order of its package comment, the entry
//     first. A file uses what is declared in the files below it.
//
// The list of files is a numbered list under a heading of its own:
//
//	// # Files
//	//
//	//  1. endpoint.go: the path leads to what serves it
//	//  2. body.go, gzip.go: the body is read within bounds
//
// Several files in one item stand in the order in which they are written. All files
// of the package are listed but the one with the comment, if it declares nothing.
//
// A name that a file uses upwards is counted once, however often it is used there.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	layers := flag.String("layers", ".tools/arrows/layers.txt", "the `file` with the order of packages")
	check := flag.Int("check", -1, "fail if more than `n` names run upwards, or files that should have an order have none")
	verbose := flag.Bool("v", false, "list each name that runs upwards")
	flag.Parse()
	dirs := flag.Args()
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	ok, err := run(os.Stdout, *layers, dirs, *check, *verbose)
	if err != nil {
		log.Fatal("arrows: ", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// run prints what runs upwards, and reports whether it is within the limit;
// a negative limit is none.
func run(w io.Writer, layersFile string, dirs []string, limit int, verbose bool) (ok bool, err error) {
	text, err := os.ReadFile(layersFile)
	if err != nil {
		return false, err
	}
	rules, err := parseLayers(string(text))
	if err != nil {
		return false, fmt.Errorf("%s: %w", layersFile, err)
	}
	pkgs, err := load(dirs)
	if err != nil {
		return false, err
	}
	r, err := measure(pkgs, rules)
	if err != nil {
		return false, err
	}
	r.print(w, verbose)
	if limit < 0 {
		return true, nil
	}
	return r.check(w, limit), nil
}
