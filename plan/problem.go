package plan

import (
	"fmt"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
)

// A Problem is an error in a plan file.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`  // line in the file, starting at 1; 0 if unknown
	Entry string `json:"entry,omitempty"` // the entry, for example track "Order Completed"
	Wrong string `json:"wrong"`           // a description of the problem
	Hint  string `json:"hint,omitempty"`  // how to fix it
}

// Error returns the problem in one line, with its file and line.
func (p Problem) Error() string { return place(p.File, p.Line) + ": " + p.Text() }

// place returns a position in a file. The line is 0 if it is unknown.
func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// Text returns the problem without its file and line.
func (p Problem) Text() string {
	text := p.Wrong
	if p.Entry != "" {
		text = p.Entry + ": " + text
	}
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	return text
}

// Problems contains the problems of a plan file in the order of lines, at most 100. It is the error
// type of [Parse] and [Load].
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Warnings returns a problem for each entry that restricts no field of a call, in file order. The
// schema of such an entry probably describes the wrong part of a call.
func (p *Plan) Warnings() Problems {
	var warnings Problems
	for _, e := range p.events {
		if e.rule.constrains(e.Member) {
			continue
		}
		hint := fmt.Sprintf("describe the %s under properties", e.Member)
		if len(e.rule.base) == 0 {
			hint += "." + e.Member
		}
		warnings = append(warnings, Problem{p.file, e.Line, e.String(), "constrains no field of a call, so it accepts every call", hint})
	}
	return warnings
}

// maxProblems is the maximum number of problems per file.
const maxProblems = 100

// A reader reads a plan file and collects its problems.
type reader struct {
	file     string
	nodes    int // number of nodes that may still be created
	problems Problems
}

// maxRepeated is the maximum number of bytes that a problem repeats of its input.
const maxRepeated = 200

// problem adds a problem. It shortens the strings, because they repeat names and values of the
// file.
func (r *reader) problem(line int, entry, wrong, hint string) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{r.file, line, cut(maxRepeated, entry), cut(2*maxRepeated, wrong), cut(2*maxRepeated, hint)})
	}
}

// hintFor suggests the most similar candidate. If there is none, it lists the candidates.
func hintFor(word string, candidates []string) string {
	if near := spell.Closest(word, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(candidates) <= 12 {
		return "use one of " + strings.Join(candidates, ", ")
	}
	return ""
}
