package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// smallPackage is how many files a package may have that lists no order of them.
const smallPackage = 5

// print writes the totals, those of each package, and the names themselves if
// verbose.
func (r *report) print(w io.Writer, verbose bool) {
	uses := 0
	for _, a := range r.arrows {
		uses += a.uses
	}
	fmt.Fprintf(w, "%d names run upwards, %d uses\n", len(r.arrows), uses)
	slices.SortFunc(r.arrows, func(a, b *arrow) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.name, b.name))
	})
	for _, p := range r.pkgs {
		var within, between, uses int
		for _, a := range r.arrows {
			switch {
			case a.pkg != p.dir:
				continue
			case a.withinFile:
				within++
			default:
				between++
			}
			uses += a.uses
		}
		none := ""
		if p.order == nil && len(p.Syntax) > 1 {
			none = fmt.Sprintf("; no order given of %d files", len(p.Syntax))
		}
		if within+between > 0 || none != "" {
			fmt.Fprintf(w, "  %s: %d within, %d to packages above, %d uses%s\n", p.dir, within, between, uses, none)
		}
		if verbose {
			r.list(w, p)
		}
	}
}

// list writes the names that a package uses upwards.
func (r *report) list(w io.Writer, p *pkg) {
	for _, a := range r.arrows {
		if a.pkg != p.dir {
			continue
		}
		times := ""
		if a.uses > 1 {
			times = fmt.Sprintf(", %d times", a.uses)
		}
		fmt.Fprintf(w, "    %s/%s:%d uses %s of %s%s\n", a.pkg, a.file, a.line, a.name, a.from, times)
	}
}

// check writes what is beyond the limit, and reports whether nothing is.
func (r *report) check(w io.Writer, limit int) bool {
	ok := true
	if n := len(r.arrows); n > limit {
		fmt.Fprintf(w, "%d names run upwards, %d more than may: arrows -v lists them\n", n, n-limit)
		ok = false
	} else if n < limit {
		fmt.Fprintf(w, "only %d names run upwards: lower the limit of %d\n", n, limit)
	}
	for _, p := range r.pkgs {
		if p.order == nil && len(p.Syntax) > smallPackage {
			fmt.Fprintf(w, "%s has %d files and lists no order of them in its package comment\n", p.dir, len(p.Syntax))
			ok = false
		}
	}
	return ok
}
