package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// Judge checks one call, which is a JSON object as sent or as stored by the collector. It returns
// the violations, sorted by pointer. It returns nil if the call matches the plan, or if the plan
// has no section for its type.
//
// Null properties or traits count as empty. If a field occurs twice, the last one is used.
func (p *Plan) Judge(call []byte) []Violation {
	_, violations := p.judge(call)
	return violations
}

// EventOf returns the entry for a call, or nil if there is none.
func (p *Plan) EventOf(call []byte) *Event {
	h, _ := input.Read(call)
	return p.Find(h.Type, h.Title())
}

func (p *Plan) judge(call []byte) (*Event, []Violation) {
	h, err := input.Read(call)
	if err != nil || h.Type == "" {
		return nil, []Violation{p.malformed(call, err == nil)}
	}
	if !p.types[h.Type] {
		return nil, nil
	}
	e := p.Find(h.Type, h.Title())
	if e == nil {
		return nil, []Violation{p.unplanned(&h)}
	}
	member := h.Object(e.Member)
	var violations []Violation
	for _, rule := range [...]*rule{e.rule, p.common} {
		if rule != nil && !rule.accepts(call, member) {
			violations = append(violations, rule.explain(p, &h, rule.subject(call, member))...)
		}
	}
	return e, violations
}

// subject returns the part of a call that the rule's schema describes. member is the value of
// the call's properties or traits, or nil.
func (rule *rule) subject(call, member []byte) []byte {
	switch {
	case len(rule.base) == 0:
		return call
	case member == nil || member[0] == 'n':
		return emptyObject
	}
	return member
}

func (p *Plan) malformed(call []byte, isObject bool) Violation {
	v := Violation{Kind: MalformedCall, File: p.file}
	if isObject {
		v.Pointer, v.Expected = "/type", "a type of call, such as track"
		return v
	}
	v.Found, v.Expected = shorten(string(bytes.TrimSpace(call))), fmt.Sprintf("one JSON object with at most %d nested levels", input.MaxDepth)
	return v
}

// unplanned returns the violation for a call that has no entry in the plan.
func (p *Plan) unplanned(h *input.Head) Violation {
	var names []string
	for _, e := range p.events {
		if e.Type == h.Type {
			names = append(names, e.Name)
		}
	}
	name := h.Title()
	member := "name"
	if h.Type == "track" {
		member = "event"
	}
	v := Violation{
		Kind: UnplannedEvent, Type: h.Type, Event: name, MessageID: h.MessageID,
		Pointer: "/" + member, Found: excerpt(name), File: p.file,
		Expected: fmt.Sprintf("one of %d planned names", len(names)),
	}
	if near := spell.Closest(name, names); near != "" {
		v.Near = strconv.Quote(near)
	}
	return v
}

// explain validates a part of a call with the library and returns its violations.
func (rule *rule) explain(p *Plan, h *input.Head, subject []byte) []Violation {
	decoder := json.NewDecoder(bytes.NewReader(subject))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil // cannot happen, because the call has been read before
	}
	err := rule.validate(clamped(value), maxSteps+2*len(subject))
	if err == nil {
		return nil
	}
	x := explainer{rule: rule, subject: value, frame: Violation{
		Type: h.Type, Event: h.Title(), MessageID: h.MessageID, File: p.file,
	}}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		x.walk(invalid)
	} else {
		x.add(InvalidValue, nil, rule.line, "a value that takes fewer steps to check", "")
	}
	slices.SortStableFunc(x.violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(a.Expected, b.Expected))
	})
	return slices.Compact(x.violations)
}

// validate validates a value. It returns an error if this takes more than the given steps.
func (rule *rule) validate(value any, steps int) (err error) {
	rule.mu.Lock()
	defer rule.mu.Unlock()
	rule.steps = steps
	defer func() {
		if r := recover(); r == errTooManySteps {
			err = errTooManySteps
		} else if r != nil {
			panic(r)
		}
	}()
	return rule.schema.Validate(value)
}

// clamped replaces numbers for which exact arithmetic is slow. It limits their magnitude to
// 10^1000 and their precision to 1000 digits.
func clamped(value any) any {
	switch v := value.(type) {
	case json.Number:
		if outOfRange(string(v)) {
			return clampNumber(string(v))
		}
	case []any:
		for i := range v {
			v[i] = clamped(v[i])
		}
	case map[string]any:
		for key, member := range v {
			v[key] = clamped(member)
		}
	}
	return value
}

func clampNumber(text string) json.Number {
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	e, err := strconv.Atoi(exponent)
	switch {
	case exponent == "":
	case err != nil && exponent[0] == '-':
		e = -1 << 40
	case err != nil:
		e = 1 << 40
	}
	magnitude := e + len(whole) - (len(whole) + len(fraction) - len(digits)) // the number equals 0.DIGITS × 10^magnitude
	switch {
	case magnitude > maxNumberDigits:
		return json.Number(sign + "1e" + strconv.Itoa(maxNumberDigits))
	case magnitude < -maxNumberDigits:
		return json.Number(sign + "1e-" + strconv.Itoa(maxNumberDigits))
	}
	return json.Number(sign + "0." + digits[:min(len(digits), maxNumberDigits)] + "e" + strconv.Itoa(magnitude))
}
