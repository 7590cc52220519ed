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
		names[i] = g.scope.unique(formOf(e).name)
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

// A form describes the type and the methods of an event. The methods return a call.
type form struct {
	name            string // the name of the type for calls with any name
	message, method string
	params, fields  string // parameters and fields in addition to the user ID
	nameField       string // the field that contains the event's name; empty if the calls have no name
	contains        string // the end of the type's comment; in forms with a nameField, a noun for the calls
	group           string // the end of the comments of a group's methods
}

// forms contains the forms, keyed by the type of the calls.
var forms = map[string]form{
	"track":    {name: "Event", message: "Track", method: "By", nameField: "Event", contains: "event"},
	"page":     {name: "Page", message: "Page", method: "By", nameField: "Name", contains: "page"},
	"screen":   {name: "Screen", message: "Screen", method: "By", nameField: "Name", contains: "screen"},
	"identify": {name: "UserTraits", message: "Identify", method: "Of", contains: "contains the traits of a user"},
	"group": {
		name: "GroupTraits", message: "Group", method: "Of", params: "groupID, ", fields: "GroupId: groupID, ",
		contains: "contains the traits of a group", group: " in a group",
	},
}

// formOf returns the form of an event.
func formOf(e *plan.Event) form {
	f := forms[e.Type]
	switch {
	case f.nameField == "":
	case e.Name == "":
		f.params, f.fields = "name, ", f.nameField+": name, "
		f.contains = "is " + withArticle(f.contains) + " with any other name"
	default:
		f.fields = f.nameField + ": " + strconv.Quote(e.Name) + ", "
		f.contains = "is the " + f.contains + " " + printable(strconv.Quote(e.Name))
		if f.name = exported(e.Name); e.Type != "track" {
			f.name = exported(part(e.Name) + part(e.Type))
		}
	}
	return f
}

// withArticle returns a word with its article.
func withArticle(word string) string {
	if strings.ContainsRune("EIei", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// event declares the type of an event and its methods.
func (g *generator) event(name string, e *plan.Event) {
	f := formOf(e)
	fields := g.fields(e.Schema.Resolve(), name, scope{"By": true, "ByAnonymous": true, "Of": true, "OfAnonymous": true})
	b := &g.events
	fmt.Fprintf(b, "%stype %s struct {%s}\n\n", comment(name+" "+f.contains+".", e.Description, e.Schema.Deprecated), name, declarations(fields))
	write := ""
	if len(fields) > 0 {
		write = ", Write: e.write"
	}
	for _, id := range []struct{ suffix, param, field, user string }{
		{"", "userID", "UserId", "a user"}, {"Anonymous", "anonymousID", "AnonymousId", "an anonymous user"},
	} {
		fmt.Fprintf(b, "// %s returns %s call for %s%s.\n", f.method+id.suffix, withArticle(f.message), id.user, f.group)
		fmt.Fprintf(b, "func (e %s) %s%s(%s%s string) *analytics.%s {\nreturn &analytics.%s{%s%s: %s%s}\n}\n\n",
			name, f.method, id.suffix, f.params, id.param, f.message, f.message, f.fields, id.field, id.param, write)
	}
	if len(fields) > 0 {
		b.WriteString(writeMethod(name, fields))
	}
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
	b.WriteString(comment("Package "+packageName+" contains the calls of "+title+".", p.Description(), false))
	fmt.Fprintf(&b, "package %s\n\nimport (\n", packageName)
	if g.usesStrconv {
		b.WriteString("\"strconv\"\n")
	}
	if g.usesTime {
		b.WriteString("\"time\"\n")
	}
	if g.events.Len() > 0 {
		fmt.Fprintf(&b, "\nanalytics %q\n", clientPath)
	}
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

// comment returns a comment with up to three paragraphs: lead, a description and a deprecation notice.
func comment(lead, description string, deprecated bool) string {
	var paragraphs []string
	if lead != "" {
		paragraphs = append(paragraphs, lead)
	}
	if description = strings.TrimSpace(description); description != "" {
		paragraphs = append(paragraphs, description)
	}
	if deprecated {
		paragraphs = append(paragraphs, "Deprecated: The tracking plan marks this as deprecated.")
	}
	if paragraphs == nil {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Join(paragraphs, "\n\n"), "\n") {
		b.WriteString(strings.TrimRight("// "+printable(strings.TrimSpace(line)), " ") + "\n")
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
