package plan

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// A Plan says which calls are planned, and what they have. It does not change once it
// is read: all its methods may be called from many goroutines at once.
type Plan struct {
	name        string
	description string
	file        string
	events      []*Event
	index       map[eventKey]*Event
	types       map[string]bool // of calls that are judged
	common      *rule           // for every call that is judged; nil for none
}

type eventKey struct{ callType, name string }

// An Event is an entry of a plan: one event of track calls, the pages or screens of one
// name, or all identify or all group calls.
type Event struct {
	// Type is the type of the calls: track, identify, group, page or screen.
	Type string

	// Name is the event of track calls, or the name of a page or screen. It is empty
	// for identify and group; otherwise an empty name stands for every name that the
	// plan does not have.
	Name string

	// Description is that of the entry, or of its schema; it may have several lines.
	Description string

	// File and Line are where the entry begins. Lines count from 1.
	File string
	Line int

	// Member is the member of a call that Schema describes: properties or traits.
	Member string

	// Schema describes that member, with what the short forms of the file stand for.
	// It is never nil.
	Schema *Schema

	rule *rule
}

// String returns the event as it is named in texts: track "Order Completed", identify,
// or page of any name.
func (e *Event) String() string { return callName(e.Type, e.Name) }

// Load reads the plan of a file, see [Parse].
func Load(file string) (*Plan, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if info.Size() > MaxFileBytes {
		return nil, Problems{tooLarge(file)}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return Parse(file, text)
}

func tooLarge(file string) Problem {
	return Problem{File: file, Wrong: fmt.Sprintf("is larger than %d MiB", MaxFileBytes>>20)}
}

// Parse reads a plan of at most [MaxFileBytes]. It is YAML or JSON, in the form that the
// package documents or as the service's Protocols export it. file is its name in
// problems and violations; a name that ends in .json is read as nothing but JSON.
//
// The error is [Problems], which say all that is wrong, with lines: what is no YAML or
// JSON, keywords that do not exist, schemas that are wrong or refer to what is not in the
// file, and patterns that package regexp does not know. Nothing is ever fetched.
func Parse(file string, text []byte) (*Plan, error) {
	if len(text) > MaxFileBytes {
		return nil, Problems{tooLarge(file)}
	}
	r := &reader{file: file, nodes: maxNodes}
	parse := parseYAML
	if isJSON(file, text) {
		parse = parseJSON
	}
	root, err := parse(text, &r.nodes)
	if err != nil {
		var at *lineError
		line := 0
		if errors.As(err, &at) {
			line = at.line
		}
		return nil, Problems{{File: file, Line: line, Wrong: err.Error()}}
	}
	p := r.plan(root)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, r.problems
	}
	return p, nil
}

// Name returns the name of the plan, which may be empty.
func (p *Plan) Name() string { return p.name }

// Description returns what the plan says of itself.
func (p *Plan) Description() string { return p.description }

// File returns the name of the file that the plan was read from.
func (p *Plan) File() string { return p.file }

// Events returns the entries in the order of the file. They must not be changed.
func (p *Plan) Events() []*Event { return slices.Clone(p.events) }

// Find returns the entry for calls of a type with a name: the one of that name, else the
// one of any name, or nil. The name does not count for identify and group.
func (p *Plan) Find(callType, name string) *Event {
	if callType == "identify" || callType == "group" {
		name = ""
	}
	if e := p.index[eventKey{callType, name}]; e != nil {
		return e
	}
	return p.index[eventKey{callType, ""}]
}

// Judges reports whether the plan says anything of calls of a type: a plan without
// page, say, has no opinion of page calls, and they pass.
func (p *Plan) Judges(callType string) bool { return p.types[callType] }

// callName names a call for people.
func callName(callType, name string) string {
	switch {
	case callType == "identify" || callType == "group" || callType == "":
		return callType
	case name == "":
		return callType + " of any name"
	}
	return fmt.Sprintf("%s %q", callType, name)
}
