package expect

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Problem is a mistake in a document.
type Problem struct {
	Path  []any // names of fields and indices of elements
	Wrong string
	Hint  string // how to fix it
}

// Field returns the path, for example expect[0].properties. It shortens the path to MaxRepeated
// bytes.
func (p Problem) Field() string {
	var path []byte
	for _, step := range p.Path {
		switch step := step.(type) {
		case int:
			path = canonical.AppendIndex(path, step)
		case string:
			path = canonical.AppendKey(path, strconv.AppendQuote(nil, step))
		}
	}
	return text.CutBytes(text.MaxRepeated, cmp.Or(string(path), "document"))
}

func (p Problem) String() string { return p.Field() + " " + p.Wrong + ": " + p.Hint }

// problems collects mistakes.
type problems []Problem

// maxProblems limits the number of problems. Each problem contains a copy of its path.
const maxProblems = 100

func (ps *problems) add(path []any, wrong, hint string) {
	if len(*ps) == maxProblems {
		return
	}
	*ps = append(*ps, Problem{append([]any{}, path...), wrong, hint})
}

// unknown adds a Problem for an unknown field.
func (ps *problems) unknown(path []any, name string, known []string) {
	ps.add(append(path[:len(path):len(path)], name), "is not a known field", hintOf(name, known))
}

// hintOf suggests the closest known name. If there is none, it lists all known names.
func hintOf(name string, known []string) string {
	if best := spell.Closest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	return "use " + strings.Join(known, ", ")
}
