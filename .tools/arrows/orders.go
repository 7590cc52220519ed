package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rules is the order of packages, read from the layers file.
type rules struct {
	layers [][]string // patterns of directories, lowest layer first
}

// parseLayers reads a layers file: a layer on each line, lowest first, as patterns
// of directories; dir/... is dir and all below it, as in the go command.
func parseLayers(text string) (rules, error) {
	var r rules
	for number, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		patterns := strings.Fields(line)
		for _, p := range patterns {
			if dir := strings.TrimSuffix(p, "/..."); path.Clean(dir) != dir {
				return rules{}, fmt.Errorf("line %d: write %s as %s", number+1, dir, path.Clean(dir))
			}
		}
		if len(patterns) > 0 {
			r.layers = append(r.layers, patterns)
		}
	}
	return r, nil
}

// layer returns the layer of the package in a directory. Of several patterns that
// match, the closest counts.
func (r rules) layer(dir string) (layer int, found bool) {
	closest := -1
	for i, patterns := range r.layers {
		for _, p := range patterns {
			if c := closeness(p, dir); c > closest {
				layer, closest = i, c
			}
		}
	}
	return layer, closest >= 0
}

// closeness says how close a pattern comes to a directory, more for one that is closer;
// it is -1 if the pattern does not match.
func closeness(pattern, dir string) int {
	if pattern == dir {
		return len(dir) + 1
	}
	base, below := strings.CutSuffix(pattern, "/...")
	switch {
	case below && base == ".":
		return 0
	case below && (dir == base || strings.HasPrefix(dir, base+"/")):
		return len(base)
	}
	return -1
}

var (
	fileName = regexp.MustCompile(`^[\w.-]+\.go$`)
	listItem = regexp.MustCompile(`^ +(\d+\.|-) (.*)`)
)

// fileOrder returns the files that a package comment lists under the heading Files,
// the entry first; nil if it lists none.
func fileOrder(doc string) ([]string, error) {
	var files []string
	inside := false
	for line := range strings.Lines(doc) {
		if heading, found := strings.CutPrefix(line, "# "); found {
			inside = strings.TrimSpace(heading) == "Files"
		}
		item := listItem.FindStringSubmatch(line)
		if !inside || item == nil {
			continue
		}
		names, _, found := strings.Cut(item[2], ":")
		if item[1] == "-" || !found {
			return nil, fmt.Errorf("in the list of files, %q is not of the form \" 1. file.go: what it does\"", item[2])
		}
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(name)
			switch {
			case !fileName.MatchString(name):
				return nil, fmt.Errorf("in the list of files, %q is not the name of a file", name)
			case slices.Contains(files, name):
				return nil, fmt.Errorf("the list of files has %s twice", name)
			}
			files = append(files, name)
		}
	}
	return files, nil
}
