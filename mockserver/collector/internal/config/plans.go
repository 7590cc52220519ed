package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/plan"
)

// readPlans reads the tracking plans of the sources. It reads each file once.
func (c *Config) readPlans(d *decoder, files Files) {
	for i := range c.Sources {
		path := c.Sources[i].Plan
		if _, known := c.plans[path]; known || path == "" {
			continue
		}
		if c.plans == nil {
			c.plans = map[string]*plan.Plan{}
		}
		files.add(path)
		p, err := plan.Load(path)
		c.plans[path] = p
		var problems plan.Problems
		switch field := fmt.Sprintf("sources[%d].plan", i); {
		case errors.As(err, &problems):
			d.problems = append(d.problems, planProblems(problems)...)
		case err != nil:
			d.wrong(d.place(field), field, "cannot be read: "+strings.TrimPrefix(err.Error(), "plan: "), "set it to the path of a plan file")
		default:
			d.warnings = append(d.warnings, planProblems(p.Warnings())...)
		}
	}
}

// planProblems converts the problems of a plan file.
func planProblems(problems plan.Problems) Problems {
	converted := make(Problems, len(problems))
	for i, p := range problems {
		wrong := p.Wrong
		if p.Entry != "" {
			wrong = p.Entry + ": " + wrong
		}
		converted[i] = Problem{File: p.File, Line: p.Line, Wrong: wrong, Hint: p.Hint}
	}
	return converted
}

// checkPlans checks the settings of sources that are about plans.
func (c *Config) checkPlans(wrong report) {
	for i, s := range c.Sources {
		at := fmt.Sprintf("sources[%d]", i)
		wrong.oneOf(at+".onViolation", s.OnViolation, Report, Quarantine, Reject)
		if s.OnViolation != "" && s.Plan == "" {
			wrong(at+".onViolation", "is set, but the source has no plan", "set plan to the path of a plan file")
		}
		switch {
		case s.ViolationsTo == "":
		case s.Plan == "":
			wrong(at+".violationsTo", "is set, but the source has no plan", "set plan to the path of a plan file")
		case !slices.ContainsFunc(c.Sources, func(other Source) bool { return other.Name == s.ViolationsTo }):
			wrong(at+".violationsTo", "is "+text.Quote(text.MaxRepeated, s.ViolationsTo)+", which is not a source", "use the name of a source")
		}
	}
}
