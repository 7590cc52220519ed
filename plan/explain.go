package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
)

// An explainer converts the library's errors to violations.
type explainer struct {
	rule       *rule
	subject    any       // the value that was checked
	frame      Violation // the fields that are the same in all violations
	violations []Violation
}

// maxViolations is the maximum number of violations per call.
const maxViolations = 100

// add adds a violation. tokens is the path of the value.
func (x *explainer) add(k Kind, tokens []string, line int, expected, near string) {
	if len(x.violations) >= maxViolations {
		return
	}
	v := x.frame
	v.Kind, v.Line, v.Expected, v.Near = k, line, expected, near
	v.Pointer = pointerTo(x.rule.base...) + pointerTo(tokens...)
	if value, ok := valueAt(x.subject, tokens); ok {
		v.Found = excerpt(value)
	}
	x.violations = append(x.violations, v)
}

// valueAt returns the value at a path, and whether it exists.
func valueAt(value any, tokens []string) (any, bool) {
	for _, token := range tokens {
		switch v := value.(type) {
		case map[string]any:
			member, ok := v[token]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// schemaOf returns the path of the schema that reported an error.
func schemaOf(err *jsonschema.ValidationError) []string {
	_, fragment, _ := strings.Cut(err.SchemaURL, "#")
	return pointerTokens(unescapeFragment(fragment))
}

// walk adds the violations for an error and for the errors that caused it.
func (x *explainer) walk(err *jsonschema.ValidationError) {
	at, schema := err.InstanceLocation, schemaOf(err)
	n := x.rule.root.at(schema)
	line := x.rule.lineAt(append(schema, err.ErrorKind.KeywordPath()...))
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		x.missing(at, k.Missing, schema, line, "")
	case *kind.DependentRequired:
		x.missing(at, k.Missing, schema, line, k.Prop)
	case *kind.Dependency:
		x.missing(at, k.Missing, schema, line, k.Prop)
	case *kind.AdditionalProperties:
		for _, name := range slices.Sorted(slices.Values(k.Properties)) {
			x.unplannedProperty(append(slices.Clone(at), name), n, line)
		}
	case *kind.FalseSchema:
		if len(at) > 0 {
			x.unplannedProperty(at, x.rule.root.at(parentSchema(schema)), line)
		} else {
			x.add(InvalidValue, at, line, "no value", "")
		}
	case *kind.Type:
		x.add(WrongType, at, line, describeTypes(k.Want), "")
	case *kind.Enum:
		x.add(InvalidValue, at, line, describeValues(k.Want), nearValue(k.Got, k.Want))
	case *kind.Const:
		x.add(InvalidValue, at, line, excerpt(k.Want), nearValue(k.Got, []any{k.Want}))
	case *kind.AnyOf:
		x.alternatives(err, at, line)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			x.add(InvalidValue, at, line, fmt.Sprintf("exactly one of the alternatives, but %d and %d match", k.Subschemas[0]+1, k.Subschemas[1]+1), "")
		} else {
			x.alternatives(err, at, line)
		}
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		x.add(InvalidValue, at, line, describeBound(k, n), "")
	case *kind.PropertyNames:
		x.add(UnplannedProperty, append(slices.Clone(at), k.Property), line, `a name that matches "propertyNames"`, "")
	default:
		if len(err.Causes) == 0 {
			x.add(InvalidValue, at, line, describeBound(err.ErrorKind, n), "")
		}
		for _, cause := range err.Causes {
			x.walk(cause)
		}
	}
}

// missing adds a violation for each required property that is missing.
func (x *explainer) missing(at, names, schema []string, line int, with string) {
	n, reason := x.rule.root.at(schema), ""
	if with != "" {
		reason = " because " + with + " is present"
	}
	for _, name := range names {
		expected, line := "a value", line
		if property := n.get("properties").get(name); property != nil {
			expected = describe(property)
			line = x.rule.lineAt(append(slices.Clone(schema), "properties", name))
		}
		x.add(MissingProperty, append(slices.Clone(at), name), line, expected+reason, "")
	}
}

// unplannedProperty adds a violation for a property that the schema n does not allow.
func (x *explainer) unplannedProperty(at []string, n *node, line int) {
	parent, _ := valueAt(x.subject, at[:len(at)-1])
	has, _ := parent.(map[string]any)
	var candidates []string
	if properties := n.get("properties"); properties != nil {
		for i := range properties.fields {
			if _, there := has[properties.fields[i].key]; !there {
				candidates = append(candidates, properties.fields[i].key)
			}
		}
	}
	x.add(UnplannedProperty, at, line, "no such property", spell.Closest(at[len(at)-1], candidates))
}

// parentSchema returns the path of the schema that contains a properties or
// unevaluatedProperties keyword. schema is the path of a schema in that keyword.
func parentSchema(schema []string) []string {
	if n := len(schema); n >= 2 && schema[n-2] == "properties" {
		return schema[:n-2]
	}
	return schema[:max(0, len(schema)-1)]
}

// alternatives adds the violations of the alternative that has the fewest violations.
func (x *explainer) alternatives(err *jsonschema.ValidationError, at []string, line int) {
	var types []string
	var best []Violation
	for _, cause := range err.Causes {
		branch := explainer{rule: x.rule, subject: x.subject, frame: x.frame}
		branch.walk(cause)
		pointer := pointerTo(x.rule.base...) + pointerTo(at...)
		if len(branch.violations) == 1 && branch.violations[0].Kind == WrongType && branch.violations[0].Pointer == pointer {
			types = append(types, branch.violations[0].Expected)
			continue
		}
		if best == nil || len(branch.violations) < len(best) {
			best = branch.violations
		}
	}
	if best == nil {
		slices.Sort(types)
		x.add(WrongType, at, line, strings.Join(slices.Compact(types), " or "), "")
		return
	}
	x.violations = append(x.violations, best[:min(len(best), maxViolations-len(x.violations))]...)
}

// describe returns a short description of the values that a schema allows.
func describe(n *node) string {
	if list := n.get("enum"); list != nil && list.kind == arrayNode {
		return describeValues(list.value().([]any))
	}
	if value := n.get("const"); value != nil {
		return string(value.appendJSON(nil))
	}
	types := n.get("type").stringValues()
	if types == nil {
		return "a value"
	}
	text := describeTypes(types)
	if format := n.str("format"); format != "" {
		text += " of format " + format
	}
	return text
}

func describeTypes(types []string) string {
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = withArticle(t)
	}
	return strings.Join(words, " or ")
}

// describeValues lists the first twenty values.
func describeValues(values []any) string {
	if len(values) == 1 {
		return excerpt(values[0])
	}
	var b strings.Builder
	b.WriteString("one of ")
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == 20 {
			fmt.Fprintf(&b, "and %d more", len(values)-i)
			break
		}
		b.WriteString(excerpt(v))
	}
	return b.String()
}

// nearValue returns the allowed value that is spelled most similarly, or "" if there is none.
func nearValue(got any, want []any) string {
	word, ok := got.(string)
	if !ok {
		return ""
	}
	var candidates []string
	for _, v := range want {
		if s, ok := v.(string); ok {
			candidates = append(candidates, s)
		}
	}
	if near := spell.Closest(word, candidates); near != "" {
		return strconv.Quote(near)
	}
	return ""
}

// describeBound describes the requirement of a keyword, for a value of the right type that
// violates it. It writes numbers as in the plan.
func describeBound(k jsonschema.ErrorKind, n *node) string {
	text := func(key string) string {
		if v := n.get(key); v != nil {
			return v.text
		}
		return "the value of " + key
	}
	switch k := k.(type) {
	case *kind.Format:
		if k.Want == regexFormat {
			return "a string of format regex"
		}
		return "a string of format " + k.Want
	case *kind.Pattern:
		return "a string that matches " + k.Want
	case *kind.MinLength:
		return "at least " + count(k.Want, "character", "characters")
	case *kind.MaxLength:
		return "at most " + count(k.Want, "character", "characters")
	case *kind.MinItems:
		return "at least " + count(k.Want, "item", "items")
	case *kind.MaxItems:
		return "at most " + count(k.Want, "item", "items")
	case *kind.AdditionalItems:
		return fmt.Sprintf("%s fewer", count(k.Count, "item", "items"))
	case *kind.MinProperties:
		return "at least " + count(k.Want, "property", "properties")
	case *kind.MaxProperties:
		return "at most " + count(k.Want, "property", "properties")
	case *kind.UniqueItems:
		return fmt.Sprintf("unique items, but items %d and %d are equal", k.Duplicates[0]+1, k.Duplicates[1]+1)
	case *kind.Minimum:
		return "at least " + text("minimum")
	case *kind.Maximum:
		return "at most " + text("maximum")
	case *kind.ExclusiveMinimum:
		return "more than " + text("exclusiveMinimum")
	case *kind.ExclusiveMaximum:
		return "less than " + text("exclusiveMaximum")
	case *kind.MultipleOf:
		return "a multiple of " + text("multipleOf")
	case *kind.Not:
		return `a value that does not match the "not" schema`
	case *kind.RefCycle:
		return "a schema without an endless $ref cycle"
	case *kind.Contains:
		return `an item that matches "contains"`
	}
	return k.LocalizedString(english)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
