package plan

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/formats"
)

// The drafts of JSON Schema that are read.
const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
	draft7    = "http://json-schema.org/draft-07/schema"
)

// Limits of a schema, so that whatever a file says ends soon.
const (
	maxSchemas      = 3000 // in an entry
	maxPatternBytes = 4096
	maxPatternSize  = 5000    // instructions of the compiled expression
	maxNumberDigits = 1000    // of a number, with the zeros that its exponent stands for
	maxSteps        = 1 << 16 // of judging a call, and two more for each of its bytes
)

// A rule is a compiled schema, and what of a call it holds for.
type rule struct {
	entry  string // for problems
	line   int
	root   *node    // the schema
	member *node    // in root, the schema of properties or traits
	base   []string // where in a call the schema begins
	draft  string   // unless $schema says otherwise

	matcher *matcher // accepts what surely is as the schema says

	mu     sync.Mutex
	schema *jsonschema.Schema
	steps  int // that the validation under way may still take; guarded by mu
}

// compile compiles the schemas of all entries.
func (r *reader) compile(p *Plan) {
	for i, e := range p.events {
		r.compileRule(e.rule, i)
		if len(r.problems) == 0 {
			e.Schema = newSchemaReader(e.rule.root).schema(e.rule.member)
		}
	}
	if p.common != nil {
		r.compileRule(p.common, len(p.events))
	}
}

func (r *reader) compileRule(rule *rule, number int) {
	before := len(r.problems)
	rule.draft = r.draftOf(rule)
	r.checkSchema(rule)
	if len(r.problems) > before {
		return
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refusal{})
	compiler.UseRegexpEngine(rule.pattern)
	compiler.AssertFormat()
	for _, f := range rule.formats() {
		compiler.RegisterFormat(f)
	}
	compiler.DefaultDraft(jsonschema.Draft2020)
	if rule.draft == draft7 {
		compiler.DefaultDraft(jsonschema.Draft7)
	}
	url := fmt.Sprintf("plan:///%d", number)
	err := compiler.AddResource(url, librarySchema(rule.root))
	if err == nil {
		rule.schema, err = compiler.Compile(url)
	}
	if err != nil {
		r.refused(rule, err)
		return
	}
	rule.matcher = newMatcher(rule.schema)
}

// draftOf returns the draft of a schema.
func (r *reader) draftOf(rule *rule) string {
	text := rule.root.str("$schema")
	switch strings.TrimSuffix(text, "#") {
	case "":
		return rule.draft
	case draft2020:
		return draft2020
	case draft7, "https://json-schema.org/draft-07/schema":
		return draft7
	}
	r.wrong(rule.root.get("$schema").line, rule.entry, fmt.Sprintf("has the $schema %q", text), "plans know "+draft2020+" and "+draft7+"#")
	return rule.draft
}

// checkSchema finds what would take too long, or is likely a mistake.
func (r *reader) checkSchema(rule *rule) {
	count := 0
	for n := range rule.root.schemas() {
		if count++; count > maxSchemas {
			r.wrong(rule.line, rule.entry, fmt.Sprintf("has more than %d schemas", maxSchemas), "")
			break
		}
		if ref := n.get("$ref"); ref != nil {
			r.checkRef(rule, ref)
		}
	}
	for n := range rule.root.all() { // numbers that take long to reckon with
		if n.kind == numberNode && outOfRange(n.text) {
			r.wrong(n.line, rule.entry, fmt.Sprintf("the number %s is out of range", shorten(n.text)), fmt.Sprintf("numbers have at most %d digits", maxNumberDigits))
		}
	}
}

// checkRef refuses references to what is not in the file, and says what there is. Those
// to an $id are left to the compiler.
func (r *reader) checkRef(rule *rule, ref *node) {
	if ref.kind != stringNode || !strings.HasPrefix(ref.text, "#/") || hasID(rule.root) {
		return
	}
	if refTarget(rule.root, ref.text) != nil {
		return
	}
	hint := ""
	for _, key := range []string{"$defs", "definitions"} {
		name, ok := strings.CutPrefix(ref.text, "#/"+key+"/")
		if !ok {
			continue
		}
		hint = "there is no " + key
		if defs := rule.root.get(key); defs != nil && defs.kind == objectNode {
			var names []string
			for _, m := range defs.members {
				names = append(names, m.key)
			}
			hint = hintFor(name, names)
		}
	}
	r.wrong(ref.line, rule.entry, fmt.Sprintf("$ref %q leads to nothing", ref.text), hint)
}

func hasID(schema *node) bool {
	for n := range schema.schemas() {
		if n.get("$id") != nil {
			return true
		}
	}
	return false
}

// outOfRange reports whether a number has so many digits, written out, that exact
// arithmetic with it takes long.
func outOfRange(text string) bool {
	if len(text) > maxNumberDigits {
		return true
	}
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return false
	}
	e, err := strconv.Atoi(exponent)
	return err != nil || math.Abs(float64(e)) > maxNumberDigits
}

// refused reports what the compiler has against a schema.
func (r *reader) refused(rule *rule, err error) {
	var invalid *jsonschema.SchemaValidationError
	var remote *jsonschema.LoadURLError
	var pattern *jsonschema.InvalidRegexError
	switch {
	case errors.As(err, &invalid):
		var cause *jsonschema.ValidationError
		if errors.As(invalid.Err, &cause) {
			r.notSchema(rule, cause)
			return
		}
	case errors.As(err, &remote):
		line, text := rule.line, remote.URL
		if at := findRef(rule.root, remote.URL); at != nil {
			line, text = at.line, at.text
		}
		r.wrong(line, rule.entry, fmt.Sprintf("refers to %s, which is not in this file", shorten(text)), "nothing is fetched; copy the schema into $defs")
		return
	case errors.As(err, &pattern):
		r.wrong(rule.lineOf(pattern.Regex), rule.entry, fmt.Sprintf("the pattern %q is not one of package regexp: %v", shorten(pattern.Regex), pattern.Err), "RE2 has no look-around and no references")
		return
	}
	r.wrong(rule.line, rule.entry, "has a schema that is wrong: "+err.Error(), "")
}

// notSchema reports where a schema is not as its metaschema says.
func (r *reader) notSchema(rule *rule, err *jsonschema.ValidationError) {
	leaf, depth := err, 0
	var look func(e *jsonschema.ValidationError)
	look = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && (leaf == err || len(e.InstanceLocation) > depth) {
			leaf, depth = e, len(e.InstanceLocation)
		}
		for _, cause := range e.Causes {
			look(cause)
		}
	}
	look(err)
	at := pointerTo(leaf.InstanceLocation...)
	text := leaf.ErrorKind.LocalizedString(english)
	r.wrong(rule.lineAt(leaf.InstanceLocation), rule.entry, fmt.Sprintf("%s is not JSON Schema: %s", strings.TrimPrefix(at, "/"), text), "")
}

// english writes what the library says of its errors.
var english = message.NewPrinter(language.English)

// lineAt returns the line of what a pointer into the schema leads to: that of its key
// where it has one.
func (rule *rule) lineAt(tokens []string) int {
	n, line := rule.root, rule.line
	for _, token := range tokens {
		next, nextLine := n.child(token)
		if next == nil {
			break
		}
		n, line = next, nextLine
	}
	return line
}

// findRef returns the $ref that led to a URL.
func findRef(schema *node, url string) *node {
	for n := range schema.schemas() {
		ref := n.get("$ref")
		if ref == nil || ref.kind != stringNode {
			continue
		}
		text, _, _ := strings.Cut(ref.text, "#")
		if text != "" && strings.HasSuffix(url, strings.TrimLeft(text, "./")) {
			return ref
		}
	}
	return nil
}

// lineOf returns the line of a string, or of a key, with a text.
func (rule *rule) lineOf(text string) int {
	for n := range rule.root.all() {
		if n.kind == stringNode && n.text == text {
			return n.line
		}
		for _, m := range n.members {
			if m.key == text {
				return m.line
			}
		}
	}
	return rule.line
}

// refusal loads nothing: a plan is complete in its file.
type refusal struct{}

func (refusal) Load(url string) (any, error) {
	return nil, errors.New("nothing is fetched")
}

// pattern compiles an expression whose size is bounded.
func (rule *rule) pattern(text string) (jsonschema.Regexp, error) {
	e, size, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	return &steppingPattern{e, size, rule}, nil
}

func compilePattern(text string) (*regexp.Regexp, int, error) {
	if len(text) > maxPatternBytes {
		return nil, 0, fmt.Errorf("it has more than %d bytes", maxPatternBytes)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, err
	}
	if len(program.Inst) > maxPatternSize {
		return nil, 0, fmt.Errorf("it is too large: %d instructions, of at most %d", len(program.Inst), maxPatternSize)
	}
	e, err := regexp.Compile(text)
	return e, len(program.Inst), err
}

// A steppingPattern takes steps for the text that it looks at.
type steppingPattern struct {
	*regexp.Regexp
	size int
	rule *rule
}

func (p *steppingPattern) MatchString(s string) bool {
	p.rule.step(1 + p.size*len(s)/256)
	return p.Regexp.MatchString(s)
}

// stepFormat is the format of schemas that have none: the library asks for it first, so
// that it counts the schemas that it comes by.
const (
	stepFormat  = "plan-step"
	regexFormat = "plan-regex" // stands for regex, which the library does not let others define
)

// errTooManySteps is what a validation that takes too long panics with, and is recovered
// from where it began: the library cannot be interrupted.
var errTooManySteps = errors.New("the schema takes too long to judge")

// step counts what a validation does.
func (rule *rule) step(n int) {
	if rule.steps -= n; rule.steps < 0 {
		panic(errTooManySteps)
	}
}

// formats returns all formats, so that they count steps.
func (rule *rule) formats() []*jsonschema.Format {
	counting := []*jsonschema.Format{
		{Name: stepFormat, Validate: func(any) error { rule.step(1); return nil }},
		{Name: regexFormat, Validate: func(v any) error {
			rule.step(1)
			if s, ok := v.(string); ok {
				_, _, err := compilePattern(s)
				return err
			}
			return nil
		}},
	}
	for name, check := range formats.All() {
		counting = append(counting, &jsonschema.Format{Name: name, Validate: func(v any) error { rule.step(1); return check(v) }})
	}
	return counting
}

// librarySchema returns a schema for the library, in which every schema has a format.
func librarySchema(root *node) any {
	schemas := map[*node]bool{}
	for n := range root.schemas() {
		schemas[n] = len(n.members) > 0
	}
	return root.valueWith(func(n *node, object map[string]any) {
		format, isText := object["format"].(string)
		switch {
		case !schemas[n]:
		case isText && format == "regex":
			object["format"] = regexFormat
		case !isText && object["format"] == nil || isText && formats.All()[format] == nil:
			object["format"] = stepFormat
		}
	})
}
