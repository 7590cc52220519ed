package service

import (
	"cmp"
	"maps"
	"path/filepath"
	"sync/atomic"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/plan"
)

const (
	// keptViolations is the maximum number of stored violations per call.
	keptViolations = 20
	// keptMessage is the maximum length of a violation's message, in characters.
	keptMessage = 300
)

// plans implements engine.Plans with the current tracking plans of the sources.
type plans struct{ inUse atomic.Pointer[plansInUse] }

// plansInUse is the current value of plans. It is immutable.
type plansInUse struct {
	bySource  map[string]*sourcePlan
	receivers map[string]bool // sources that receive calls about violations
}

// A sourcePlan is the plan of a source with the settings for violations.
type sourcePlan struct {
	*plan.Plan
	name string
	config.Source
}

func newPlans(c *config.Config) *plans {
	p := &plans{}
	p.inUse.Store(plansOf(c))
	return p
}

// change switches to the plans of a new configuration if apply succeeds. While apply runs, the
// plans of both configurations are active, because calls of both added and removed sources must
// be checked.
func (p *plans) change(c *config.Config, apply func() error) error {
	before, after := p.inUse.Load(), plansOf(c)
	both := plansInUse{maps.Clone(after.bySource), maps.Clone(after.receivers)}
	maps.Copy(both.bySource, before.bySource)
	maps.Copy(both.receivers, before.receivers)
	p.inUse.Store(&both)
	err := apply()
	if err != nil {
		after = before
	}
	p.inUse.Store(after)
	return err
}

// plansOf returns the plans of a configuration.
func plansOf(c *config.Config) *plansInUse {
	all := &plansInUse{map[string]*sourcePlan{}, map[string]bool{}}
	for i := range c.Sources {
		s := &c.Sources[i]
		if of := c.PlanOf(s); of != nil {
			all.bySource[s.Name] = &sourcePlan{of, cmp.Or(of.Name(), filepath.Base(of.File())), *s}
			all.receivers[s.ViolationsTo] = true
		}
	}
	return all
}

// Judge implements ingest.Judge.
func (p *plans) Judge(c *tracking.Call, member []byte) ingest.Verdict {
	s := p.of(c)
	if s == nil {
		return ingest.Verdict{}
	}
	violations := s.judge(c, member)
	if violations == nil {
		return ingest.Verdict{}
	}
	return ingest.Verdict{Violations: violations, Reject: s.OnViolation == config.Reject, ReportTo: s.ViolationsTo}
}

// of returns the plan that applies to a call, or nil. It returns nil for calls about violations,
// because checking them could cause further violations.
func (p *plans) of(c *tracking.Call) *sourcePlan {
	now := p.inUse.Load()
	s := now.bySource[c.Source]
	if s != nil && c.Event == ingest.ViolationEvent && c.Type == "track" && now.receivers[c.Source] {
		return nil
	}
	return s
}

// Quarantine implements engine.Plans.
func (p *plans) Quarantine(c *tracking.Call) (reason string) {
	s := p.of(c)
	if s == nil || s.OnViolation != config.Quarantine {
		return ""
	}
	if violations := p.violationsOf(c); len(violations) > 0 {
		return violations[0].Message
	}
	return ""
}

// mark checks a call that another process accepted with the current plans, and sets its
// violations.
func (p *plans) mark(c *tracking.Call) { c.Violations = p.violationsOf(c) }

// violationsOf returns the violations of a stored call. Synthetic calls have no violations.
func (p *plans) violationsOf(c *tracking.Call) []tracking.Violation {
	s := p.of(c)
	if s == nil || history.IsSynthetic(c) {
		return nil
	}
	return s.judge(c, fields.Find(c.Body, fields.Describing(c.Type)))
}

// judge returns the violations of a call.
func (s *sourcePlan) judge(c *tracking.Call, member []byte) []tracking.Violation {
	title := c.Name
	if c.Type == "track" {
		title = c.Event
	}
	if s.Accepts(c.Type, title, c.Body, member) {
		return nil
	}
	found := s.Plan.Judge(c.Body)
	if len(found) == 0 {
		return nil
	}
	entry := s.Find(c.Type, title)
	violations := make([]tracking.Violation, 0, min(len(found), keptViolations))
	for _, v := range found[:min(len(found), keptViolations)] {
		message := v.Text()
		if v.Kind == plan.UnplannedEvent {
			message = v.Sentence()
		}
		violations = append(violations, tracking.Violation{
			Kind: string(v.Kind), Event: entryName(entry), Pointer: text.Cut(keptMessage, v.Pointer), Message: text.Cut(keptMessage, message), Plan: s.name, Line: v.Line,
		})
	}
	return violations
}

// entryName returns the name of an event of the plan for metrics, or "".
func entryName(e *plan.Event) string {
	if e == nil {
		return ""
	}
	return cmp.Or(e.Name, e.Type)
}
