package generate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

type kind uint8

const (
	kindAny kind = iota
	kindString
	kindInt
	kindFloat
	kindBool
	kindTime
	kindEnum
	kindStruct
	kindList
	kindMap
)

// A goType is the Go type of a schema.
type goType struct {
	kind      kind
	name      string // the name of the type in Go
	base      kind   // for an enum, kindString or kindInt
	elem      *goType
	nullable  bool // the type also allows null
	declaring bool // the struct is being declared; if it is used now, it is recursive
}

// typeOf returns the Go type for a schema, and declares it if necessary. If the schema has no
// $ref, name is the name of the type.
func (g *generator) typeOf(s *plan.Schema, name string) *goType {
	for range 64 { // a longer chain is a cycle of $ref, which has the type any
		if s.Ref == nil {
			break
		}
		name, s = exported(s.RefName[strings.LastIndexByte(s.RefName, '/')+1:]), s.Ref
	}
	if s.Ref != nil {
		return &goType{kind: kindAny, name: "any"}
	}
	types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	nullable := s.Nullable()
	if len(s.Enum) > 0 {
		if t := g.enum(s, types, name); t != nil {
			return t
		}
	}
	if len(types) == 2 && slices.Contains(types, "integer") && slices.Contains(types, "number") {
		types = []string{"number"}
	}
	if len(types) == 0 && len(s.Properties) > 0 {
		types = []string{"object"}
	}
	if len(types) != 1 {
		return &goType{kind: kindAny, name: "any"}
	}
	t := g.single(s, types[0], name)
	if nullable && t.kind != kindAny && !t.nullable {
		copied := *t
		copied.nullable = true
		return &copied
	}
	return t
}

// single returns the Go type for a schema that allows one JSON type.
func (g *generator) single(s *plan.Schema, jsonType, name string) *goType {
	switch jsonType {
	case "string":
		if s.Format == "date-time" {
			return &goType{kind: kindTime, name: "time.Time"}
		}
		return &goType{kind: kindString, name: "string"}
	case "integer":
		return &goType{kind: kindInt, name: "int"}
	case "number":
		return &goType{kind: kindFloat, name: "float64"}
	case "boolean":
		return &goType{kind: kindBool, name: "bool"}
	case "array":
		elem := &goType{kind: kindAny, name: "any"}
		if s.Items != nil {
			if t := g.typeOf(s.Items, name+"Item"); !t.nullable {
				elem = t
			}
		}
		return &goType{kind: kindList, name: "[]" + elem.name, elem: elem}
	case "object":
		if len(s.Properties) > 0 {
			return g.structOf(s, name)
		}
		return &goType{kind: kindMap, name: "map[string]any"}
	}
	return &goType{kind: kindAny, name: "any"}
}

// enum returns the type for a list of strings or integers. The list may also contain null. For
// other lists enum returns nil.
func (g *generator) enum(s *plan.Schema, types []string, name string) *goType {
	nullable := slices.Contains(s.Enum, nil) && (len(s.Types) == 0 || s.Nullable())
	var base kind
	var values []string // the values as Go literals
	var names []string
	for _, v := range s.Enum {
		var of kind
		var literal, label string
		switch v := v.(type) {
		case nil:
			continue
		case string:
			of, literal, label = kindString, strconv.Quote(v), part(v)
		case json.Number:
			n, err := strconv.ParseInt(v.String(), 10, 64)
			if err != nil {
				return nil
			}
			of, literal = kindInt, strconv.FormatInt(n, 10)
			label = strings.Replace(literal, "-", "Minus", 1)
		default:
			return nil
		}
		if base != kindAny && base != of {
			return nil
		}
		base = of
		if !slices.Contains(values, literal) { // JSON Schema allows repeated values, and Go does not
			values, names = append(values, literal), append(names, label)
		}
	}
	if fits := map[kind]string{kindString: "string", kindInt: "integer"}[base]; base == kindAny ||
		len(types) > 0 && !slices.Contains(types, fits) && !(base == kindInt && slices.Contains(types, "number")) {
		return nil
	}
	key := "enum " + name + string(s.JSON())
	if t := g.declared[key]; t != nil {
		return t
	}
	t := &goType{kind: kindEnum, base: base, name: g.scope.unique(name), nullable: nullable}
	g.declared[key] = t
	g.declareEnum(t, s, values, names)
	return t
}

func (g *generator) declareEnum(t *goType, s *plan.Schema, values, names []string) {
	under := "string"
	if t.base == kindInt {
		under = "int"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%stype %s %s\n\n", comment(t.name+" is one of the constants below.", s.Description, s.Deprecated), t.name, under)
	fmt.Fprintf(&b, "// The allowed values of %s.\nconst (\n", t.name)
	for i, v := range values {
		if names[i] == "" {
			names[i] = "Empty"
			if v != `""` {
				names[i] = "X"
			}
		}
		fmt.Fprintf(&b, "%s %s = %s\n", g.scope.unique(t.name+names[i]), t.name, v)
	}
	text, quoted := "string(v)", values
	if t.base == kindInt {
		g.usesStrconv = true
		text, quoted = "strconv.Itoa(int(v))", nil
		for _, v := range values {
			quoted = append(quoted, strconv.Quote(v))
		}
	}
	fmt.Fprintf(&b, ")\n\nfunc (v %s) check() error {\nswitch v {\ncase %s:\nreturn nil\n}\nreturn typed.NotOneOf(%s, %s)\n}\n\n",
		t.name, strings.Join(values, ", "), text, strings.Join(quoted, ", "))
	g.types.WriteString(b.String())
}

// structOf returns the struct type for an object that has properties.
func (g *generator) structOf(s *plan.Schema, name string) *goType {
	key := "struct " + name + string(s.JSON())
	if t := g.declared[key]; t != nil {
		return t
	}
	t := &goType{kind: kindStruct, name: g.scope.unique(name), declaring: true}
	g.declared[key] = t
	fields := g.fields(s, t.name, scope{})
	t.declaring = false
	var b strings.Builder
	fmt.Fprintf(&b, "%stype %s struct {%s}\n\n", comment(t.name+" is an object in the tracking plan.", s.Description, s.Deprecated), t.name, declarations(fields))
	b.WriteString(writeMethod("*"+t.name, fields))
	g.types.WriteString(b.String())
	return t
}

// A field is a struct field for a property.
type field struct {
	name, key string
	property  plan.Property
	typ       *goType
	required  bool
	pointer   bool // the type is a pointer to a struct
}

// fields returns the struct fields for the properties of an object. Their names are not in names.
func (g *generator) fields(s *plan.Schema, owner string, names scope) []field {
	var all []field
	for _, p := range s.Properties {
		f := field{name: names.unique(exported(p.Name)), key: g.key(p.Name), property: p, required: p.Required}
		f.typ = g.typeOf(p.Schema, owner+strings.TrimPrefix(f.name, "X"))
		f.pointer = f.typ.kind == kindStruct && (!f.required || f.typ.nullable || f.typ.declaring)
		g.usesTime = g.usesTime || strings.Contains(f.typ.name, "time.Time")
		all = append(all, f)
	}
	return all
}

// opt reports whether the type of the field is a typed.Opt.
func (f *field) opt() bool {
	switch f.typ.kind {
	case kindAny, kindList, kindMap, kindStruct:
		return false
	}
	return !f.required || f.typ.nullable
}

// declarations returns the declarations of struct fields.
func declarations(fields []field) string {
	var b strings.Builder
	for i, f := range fields {
		if i == 0 {
			b.WriteByte('\n')
		}
		schema, lead := f.property.Schema, ""
		if f.required {
			lead = "Required. "
		}
		text := comment("", lead+schema.Description, schema.Deprecated)
		if i > 0 && text != "" {
			b.WriteByte('\n')
		}
		typ := f.typ.name
		switch {
		case f.opt():
			typ = "typed.Opt[" + typ + "]"
		case f.pointer:
			typ = "*" + typ
		}
		fmt.Fprintf(&b, "%s%s %s\n", text, f.name, typ)
	}
	return b.String()
}
