package generate

import (
	"fmt"
	"go/format"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

// Package is the default name of the generated package.
const Package = "events"

const (
	clientPath = "github.com/seed-45eadc4a/analytics-go"
	typedPath  = clientPath + "/typed"
)

// Events returns the formatted source of a Go file with a type for each event of the
// plan. An empty packageName means [Package]. The error reports an invalid packageName.
func Events(p *plan.Plan, packageName string) ([]byte, error) {
	if packageName == "" {
		packageName = Package
	}
	if !token.IsIdentifier(packageName) || packageName == "_" {
		return nil, fmt.Errorf("generate: invalid package name %q: it must be a Go identifier such as %s", packageName, Package)
	}
	g := &generator{scope: scope{}, declared: map[string]*goType{}, keys: map[string]string{}, keyNames: scope{}}
	events := p.Events()
	// Reserve the names of events before the names of nested types.
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = g.scope.unique(eventName(e))
	}
	for i, e := range events {
		g.event(names[i], e)
	}
	return g.file(p, packageName)
}

// A generator collects the parts of a generated file.
type generator struct {
	scope       scope              // the names that are used in the package
	declared    map[string]*goType // struct and enum types, keyed by name and schema
	types       strings.Builder    // the declarations of structs and enums
	events      strings.Builder
	keys        map[string]string // variable names of keys, by property name
	keyNames    scope
	keyVars     strings.Builder
	usesTime    bool
	usesStrconv bool
}

// eventName returns the name of an event's type.
func eventName(e *plan.Event) string {
	switch e.Type {
	case "identify":
		return "UserTraits"
	case "group":
		return "GroupTraits"
	case "track":
		if e.Name == "" {
			return "Event"
		}
		return exported(e.Name)
	}
	return exported(part(e.Name) + part(e.Type))
}

// A form describes the methods of a type that return a call.
type form struct {
	message, method string
	params, fields  string // parameters and fields in addition to the user ID
	group           string // the end of the comments of a group's methods
}

func formOf(e *plan.Event) form {
	var f form
	field := "Name"
	switch e.Type {
	case "identify":
		return form{message: "Identify", method: "Of"}
	case "group":
		return form{message: "Group", method: "Of", params: "groupID, ", fields: "GroupId: groupID, ", group: " in a group"}
	case "page":
		f = form{message: "Page", method: "By"}
	case "screen":
		f = form{message: "Screen", method: "By"}
	default:
		f, field = form{message: "Track", method: "By"}, "Event"
	}
	name := strconv.Quote(e.Name)
	if e.Name == "" {
		name, f.params = "name", "name, "
	}
	f.fields = field + ": " + name + ", "
	return f
}

// event declares the type of an event and its methods.
func (g *generator) event(name string, e *plan.Event) {
	f := formOf(e)
	fields := g.fields(e.Schema.Resolve(), name, scope{"By": true, "ByAnonymous": true, "Of": true, "OfAnonymous": true})
	b := &g.events
	described := &plan.Schema{Description: e.Description, Deprecated: e.Schema.Deprecated}
	fmt.Fprintf(b, "%stype %s struct {%s}\n\n", comment(name+" "+subject(e)+".", described), name, declarations(fields))
	write := ""
	if len(fields) > 0 {
		write = ", Write: e.write"
	}
	article := "a"
	if f.message == "Identify" {
		article = "an"
	}
	for _, id := range []struct{ suffix, param, field, user string }{
		{"", "userID", "UserId", "a user"}, {"Anonymous", "anonymousID", "AnonymousId", "an anonymous user"},
	} {
		fmt.Fprintf(b, "// %s returns %s %s call for %s%s.\n", f.method+id.suffix, article, f.message, id.user, f.group)
		fmt.Fprintf(b, "func (e %s) %s%s(%s%s string) *analytics.%s {\nreturn &analytics.%s{%s%s: %s%s}\n}\n\n",
			name, f.method, id.suffix, f.params, id.param, f.message, f.message, f.fields, id.field, id.param, write)
	}
	if len(fields) > 0 {
		b.WriteString(writeMethod(name, fields))
	}
}

// subject returns the end of the comment of an event's type.
func subject(e *plan.Event) string {
	noun, article := e.Type, "a "
	if e.Type == "track" {
		noun, article = "event", "an "
	}
	switch {
	case e.Type == "identify":
		return "contains the traits of a user"
	case e.Type == "group":
		return "contains the traits of a group"
	case e.Name == "":
		return "is " + article + noun + " with any other name"
	}
	return fmt.Sprintf("is the %s %s", noun, printable(strconv.Quote(e.Name)))
}

// key returns the name of the variable with the typed.Key of a property.
func (g *generator) key(property string) string {
	if name, ok := g.keys[property]; ok {
		return name
	}
	name := g.keyNames.unique("key" + part(property))
	g.keys[property] = name
	fmt.Fprintf(&g.keyVars, "%s = typed.NewKey(%s)\n", name, strconv.Quote(property))
	return name
}

// file assembles the parts of the file and formats it.
func (g *generator) file(p *plan.Plan, packageName string) ([]byte, error) {
	var b strings.Builder
	from := ""
	if p.File() != "" {
		from = " from " + printable(filepath.Base(p.File()))
	}
	fmt.Fprintf(&b, "// Code generated by plan/gen%s. DO NOT EDIT.\n\n", from)
	title := strings.TrimSpace("the tracking plan " + printable(p.Name()))
	b.WriteString(comment("Package "+packageName+" contains the calls of "+title+".", &plan.Schema{Description: p.Description()}))
	fmt.Fprintf(&b, "package %s\n\nimport (\n", packageName)
	if g.usesStrconv {
		b.WriteString("\"strconv\"\n")
	}
	if g.usesTime {
		b.WriteString("\"time\"\n")
	}
	fmt.Fprintf(&b, "\nanalytics %q\n", clientPath)
	if g.types.Len() > 0 || g.keyVars.Len() > 0 {
		fmt.Fprintf(&b, "%q\n", typedPath)
	}
	b.WriteString(")\n\n")
	b.WriteString(g.events.String() + g.types.String())
	if g.keyVars.Len() > 0 {
		fmt.Fprintf(&b, "var (\n%s)\n", g.keyVars.String())
	}
	out, err := format.Source([]byte(b.String()))
	if err != nil {
		return nil, fmt.Errorf("generate: internal error: the generated code is invalid: %w", err)
	}
	return out, nil
}

// comment returns a comment that consists of lead, the schema's description, and a deprecation
// notice.
func comment(lead string, s *plan.Schema) string {
	var lines []string
	if lead != "" {
		lines = append(lines, lead)
	}
	if s.Description != "" && lead != "" {
		lines = append(lines, "")
	}
	if s.Description != "" {
		for _, line := range strings.Split(strings.TrimSpace(s.Description), "\n") {
			lines = append(lines, printable(strings.TrimSpace(line)))
		}
	}
	if s.Deprecated {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, "Deprecated: The tracking plan marks this as deprecated.")
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight("// "+line, " ") + "\n")
	}
	return b.String()
}

// printable replaces characters that would end a comment or are invisible.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r != ' ' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
