package config

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/yamldoc"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Problem is a problem of a configuration, or of a plan that it names.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // from 1; 0 if unknown
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"` // such as destinations[0].webhooks[1].url
	Wrong  string `json:"wrong"`
	Hint   string `json:"mend,omitempty"` // how to fix the problem
}

func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, ":%d", p.Column)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + " ")
	}
	b.WriteString(p.Wrong)
	if p.Hint != "" {
		b.WriteString(": " + p.Hint)
	}
	return b.String()
}

// Problems are all problems of a configuration, sorted by line.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// A decoder decodes YAML into a struct and collects problems.
type decoder struct {
	file     string
	expand   func(string) (string, error)
	path     string                  // absolute path of file
	dir      string                  // base directory for relative paths
	at       map[string]*token.Token // positions, keyed by field
	raw      map[string]string       // values before expansion, keyed by field
	anchors  map[string]ast.Node
	left     int // values that may still be decoded
	problems Problems
	warnings Problems
}

// decode decodes a YAML document into v, a pointer to a struct.
func (d *decoder) decode(data []byte, v any) {
	root, err := yamldoc.Parse(data)
	if syntax := (*yamldoc.SyntaxError)(nil); errors.As(err, &syntax) {
		d.problems = append(d.problems, Problem{File: d.file, Line: syntax.Line, Column: syntax.Column, Wrong: syntax.Problem})
		return
	}
	if root == nil {
		return
	}
	for _, n := range ast.Filter(ast.AnchorType, root) {
		anchor := n.(*ast.AnchorNode)
		name := anchor.Name.String()
		if d.anchors[name] != nil {
			d.wrong(n.GetToken(), "", fmt.Sprintf("the anchor &%s is defined twice", name), "rename one of them")
		}
		d.anchors[name] = anchor.Value
	}
	for _, n := range ast.Filter(ast.AliasType, root) {
		if name := n.(*ast.AliasNode).Value.String(); d.anchors[name] == nil {
			d.wrong(n.GetToken(), "", fmt.Sprintf("the alias *%s has no anchor &%s", name, name), "add the anchor, or write out the value")
		}
	}
	d.left = maxValues
	if d.value(root, "", reflect.ValueOf(v).Elem()); d.left < 0 {
		d.problems = Problems{{File: d.file, Wrong: fmt.Sprintf("has more than %d values, including values that aliases repeat", maxValues), Hint: "use fewer aliases"}}
	}
}

// maxValues is the maximum number of values in a configuration. Nested aliases can repeat
// values without limit.
const maxValues = 100_000

func (d *decoder) wrong(at *token.Token, field, wrong, hint string) {
	d.problems = append(d.problems, d.problem(at, field, wrong, hint))
}

// warn adds a warning.
func (d *decoder) warn(field, wrong, hint string) {
	d.warnings = append(d.warnings, d.problem(d.place(field), field, wrong, hint))
}

// A report adds a problem of a field.
type report func(field, wrong, hint string)

func (d *decoder) problem(at *token.Token, field, wrong, hint string) Problem {
	p := Problem{File: d.file, Field: text.CutBytes(text.MaxRepeated, field), Wrong: wrong, Hint: hint}
	if at != nil && at.Position != nil {
		p.Line, p.Column = at.Position.Line, at.Position.Column
	}
	return p
}

// value decodes a node into v.
func (d *decoder) value(node ast.Node, field string, v reflect.Value) {
	node = d.resolve(node)
	if node == nil || node.Type() == ast.NullType {
		return // a key without a value counts as missing
	}
	v.SetZero() // a value replaces the merged value of the same setting
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	target := v.Addr().Interface()
	if d, ok := target.(*time.Duration); ok {
		target = (*positiveDuration)(d)
	}
	if unmarshaler, ok := target.(encoding.TextUnmarshaler); ok {
		d.text(node, field, unmarshaler)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(node, field, v)
	case reflect.Slice:
		d.list(node, field, v)
	case reflect.Map:
		d.table(node, field, v)
	case reflect.String:
		if s, ok := d.scalar(node, field, "a string"); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		if s, ok := d.scalar(node, field, "true or false"); ok {
			if s != "true" && s != "false" {
				d.wrong(node.GetToken(), field, "is "+text.Quote(text.MaxRepeated, s), "use true or false")
			}
			v.SetBool(s == "true")
		}
	case reflect.Int:
		if s, ok := d.scalar(node, field, "a number"); ok {
			n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
			if err != nil || n < 1 {
				d.wrong(node.GetToken(), field, "is "+text.Quote(text.MaxRepeated, s), "use a whole number above 0")
			}
			v.SetInt(int64(n))
		}
	case reflect.Float64:
		if s, ok := d.scalar(node, field, "a number"); ok {
			n, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
			if err != nil || !(n > 0) {
				d.wrong(node.GetToken(), field, "is "+text.Quote(text.MaxRepeated, s), "use a number above 0")
				n = 0
			}
			v.SetFloat(n)
		}
	default:
		panic("config: a field of type " + v.Type().String())
	}
}

// resolve follows aliases and removes anchors and tags. It returns nil after maxValues values.
func (d *decoder) resolve(node ast.Node) ast.Node {
	if d.left--; d.left < 0 {
		return nil
	}
	for range 100 { // aliases can be nested or recursive
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.TagNode:
			node = n.Value
		case *ast.AliasNode:
			node = d.anchors[n.Value.String()]
		default:
			return node
		}
	}
	return nil
}

// scalar returns the expanded text of a scalar node.
func (d *decoder) scalar(node ast.Node, field, want string) (string, bool) {
	var s string
	switch n := node.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case ast.ScalarNode:
		s = n.GetToken().Value
	default:
		d.wrong(node.GetToken(), field, "must be "+want+meaning(field)+", not "+kindOf(node), "")
		return "", false
	}
	d.raw[field] = s
	expanded, err := d.expand(s)
	switch {
	case err != nil:
		d.wrong(node.GetToken(), field, err.Error(), "")
	case expanded == "" && s != "": // an empty secret must not go unnoticed
		d.wrong(node.GetToken(), field, "is empty because the variable or file it refers to is empty", "set a value, or remove the setting")
	default:
		return expanded, true
	}
	return "", false
}

func (d *decoder) text(node ast.Node, field string, v encoding.TextUnmarshaler) {
	s, ok := d.scalar(node, field, "a single value")
	if !ok {
		return
	}
	if err := v.UnmarshalText([]byte(s)); err != nil {
		d.wrong(node.GetToken(), field, "is "+text.Quote(text.MaxRepeated, s), hintOf(v, err))
	}
}

// hintOf returns the hint in an error of UnmarshalText. Errors of other packages contain none.
func hintOf(v any, err error) string {
	if reflect.TypeOf(v).Elem().PkgPath() == "net/netip" {
		return "use a network such as 10.1.0.0/16"
	}
	return err.Error()
}

func (d *decoder) structure(node ast.Node, field string, v reflect.Value) {
	fields := maps.Collect(settings.Fields(v))
	d.members(node, field, 0, func(key string, at *token.Token, value ast.Node) {
		target, ok := fields[key]
		if !ok {
			names := slices.Sorted(maps.Keys(fields))
			d.wrong(at, join(field, key), "is not a setting", suggest(key, names))
			return
		}
		d.at[join(field, key)] = at
		d.value(value, join(field, key), target)
	})
}

// maxMerges limits nested merge keys (<<), which can be recursive.
const maxMerges = 10

// members calls see for each field of a mapping. Merged fields come first.
func (d *decoder) members(node ast.Node, field string, merges int, see func(key string, at *token.Token, value ast.Node)) {
	if kind := kindOf(node); kind != mapping {
		d.wrong(node.GetToken(), field, "must be "+mapping+", not "+kind, "write each setting as name: value")
		return
	}
	values := yamldoc.Members(node)
	for _, m := range values {
		if merged := d.resolve(m.Value); m.Key.IsMergeKey() && merged != nil && merges < maxMerges {
			d.members(merged, field, merges+1, see)
		}
	}
	for _, m := range values {
		if !m.Key.IsMergeKey() {
			see(m.Key.GetToken().Value, m.Key.GetToken(), m.Value)
		}
	}
}

func (d *decoder) list(node ast.Node, field string, v reflect.Value) {
	n, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrong(node.GetToken(), field, "must be a list, not "+kindOf(node), "start each item with a hyphen")
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values))
	v.Set(items)
	for i, item := range n.Values {
		at := fmt.Sprintf("%s[%d]", field, i)
		if resolved := d.resolve(item); resolved != nil {
			d.at[at] = resolved.GetToken()
		}
		d.value(item, at, items.Index(i))
	}
}

// table decodes a map.
func (d *decoder) table(node ast.Node, field string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.members(node, field, 0, func(key string, at *token.Token, value ast.Node) {
		name := fmt.Sprintf("%s[%q]", field, key)
		d.at[name] = at
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, name, element)
		v.SetMapIndex(reflect.ValueOf(key), element)
	})
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

// meanings describes the valid values of settings, keyed by the last part of the setting's name.
var meanings = map[string]string{
	"data": "the path of a directory", "plan": "the path of a plan file",
	"tokenFile": "the path of a file", "caFile": "the path of a PEM file", "certFile": "the path of a PEM file",
	"keyFile": "the path of a PEM file", "credentials": "the path of a file", "webhook": "a URL", "url": "a URL",
}

func meaning(field string) string {
	if m := meanings[field[strings.LastIndex(field, ".")+1:]]; m != "" {
		return " (" + m + ")"
	}
	return ""
}

const mapping = "a mapping"

// kindOf describes a node.
func kindOf(node ast.Node) string {
	switch node.Type() {
	case ast.MappingType, ast.MappingValueType:
		return mapping
	case ast.SequenceType:
		return "a list"
	default:
		return "a single value"
	}
}

// place returns the position of a field, or of its nearest parent.
func (d *decoder) place(field string) *token.Token {
	for field != "" {
		if at := d.at[field]; at != nil {
			return at
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return nil
}

// suggest returns a hint that contains the most similar setting and a list of all settings.
func suggest(key string, names []string) string {
	best := spell.Closest(key, names)
	all := strings.Join(names, ", ")
	if best == "" {
		return "valid settings are " + all
	}
	return fmt.Sprintf("did you mean %s? Valid settings are %s", best, all)
}
