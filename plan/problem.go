package plan

import (
	"fmt"
	"strings"
)

// A Problem is one thing that is wrong with a plan's file.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`  // from 1; 0 where it has no place
	Entry string `json:"entry,omitempty"` // as in track "Order Completed"
	Wrong string `json:"wrong"`           // what is wrong
	Hint  string `json:"hint,omitempty"`  // what would be right
}

// Error returns the problem in one line: file, line, what is wrong, what would be right.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	return b.String() + ": " + p.Text()
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

// Problems are all that is wrong with a plan, in the order of its lines, at most 100.
// It is the error of [Parse] and [Load]; use errors.As to look at each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Warnings returns the entries that constrain no field of a call, in the order of the
// file. Their schema probably has another form than the reader expects.
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

// maxProblems is how many problems of a file are told.
const maxProblems = 100

// A reader reads the file of a plan, and gathers what is wrong.
type reader struct {
	file     string
	nodes    int // how many there may still be
	problems Problems
}

func (r *reader) wrong(line int, entry, wrong, hint string) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{r.file, line, entry, wrong, hint})
	}
}
