package plan

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
)

// A Plan is a tracking plan. It is immutable, so its methods may be called concurrently.
type Plan struct {
	name        string
	description string
	file        string
	events      []*Event
	index       map[eventKey]*Event
	types       map[string]bool // the call types that have a section
	common      *rule           // the rule for every checked call; may be nil
}

type eventKey struct{ callType, name string }

// An Event is an entry of a plan. It describes a track event, the pages or screens with one name,
// all identify calls, or all group calls.
type Event struct {
	// Type is the calls' type: track, identify, group, page or screen.
	Type string

	// Name is the event of a track call, or the name of a page or screen. For identify and
	// group it is empty. For other types, an empty name stands for all names that have no entry
	// of their own.
	Name string

	// Description is the description of the entry or its schema. It may have several lines.
	Description string

	// File and Line are the position of the entry. Line starts at 1.
	File string
	Line int

	// Member is the field of a call that Schema describes: properties or traits.
	Member string

	// Schema describes the field Member, with all short forms expanded. It is never nil.
	Schema *Schema

	rule *rule
}

// String returns a display name: track "Order Completed", identify, or page of any name.
func (e *Event) String() string { return callName(e.Type, e.Name) }

// Load reads a plan file; see [Parse].
func Load(file string) (*Plan, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1)) // Parse refuses the additional byte
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return Parse(file, text)
}

// Parse parses a plan of at most [MaxFileBytes] in one of the formats that the package
// documentation describes. file is the plan's name in problems and violations. If it ends
// in .json, the text must be JSON; otherwise it may also be YAML.
//
// The error is of type [Problems] and lists all problems with their lines: syntax errors,
// unknown keywords, invalid schemas, unresolved references, and patterns that package
// regexp does not support. Parse never accesses the network.
func Parse(file string, text []byte) (*Plan, error) {
	if len(text) > MaxFileBytes {
		return nil, Problems{{File: file, Wrong: fmt.Sprintf("is larger than %d MiB", MaxFileBytes>>20)}}
	}
	text, err := textfile.Decode(text)
	if err != nil {
		return nil, Problems{{File: file, Wrong: "is not UTF-8", Hint: "save the file in this encoding"}}
	}
	r := &reader{file: file, nodes: maxNodes}
	parse := parseYAML
	if isJSON(file, text) {
		parse = parseJSON
	}
	root, err := parse(text, &r.nodes)
	if err != nil {
		line := 0
		if at, ok := errors.AsType[*lineError](err); ok {
			line = at.line
		}
		r.problem(line, "", err.Error(), "")
		return nil, r.problems
	}
	p := r.plan(root)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, r.problems
	}
	return p, nil
}

// Name returns the plan's name, which may be empty.
func (p *Plan) Name() string { return p.name }

// Description returns the plan's description, which may be empty.
func (p *Plan) Description() string { return p.description }

// File returns the name of the plan's file.
func (p *Plan) File() string { return p.file }

// Events returns the plan's entries in file order. Callers must not modify them.
func (p *Plan) Events() []*Event { return slices.Clone(p.events) }

// Find returns the entry for calls of a type and name. This is the entry with that name, or
// otherwise the entry for any name, or nil. For identify and group, Find ignores the name.
func (p *Plan) Find(callType, name string) *Event {
	if callType == "identify" || callType == "group" {
		name = ""
	}
	if e := p.index[eventKey{callType, name}]; e != nil {
		return e
	}
	return p.index[eventKey{callType, ""}]
}

// Judges reports whether the plan has a section for a call type. Calls of other types are not
// checked.
func (p *Plan) Judges(callType string) bool { return p.types[callType] }

// callName returns the display name of a call.
func callName(callType, name string) string {
	switch {
	case callType == "identify" || callType == "group" || callType == "" || callType == everyCall:
		return callType
	case name == "":
		return callType + " of any name"
	}
	return fmt.Sprintf("%s %q", callType, name)
}
