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
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// The supported drafts of JSON Schema.
const (
	draft2020 = "https://json-schema.org/draft/2020-12/schema"
	draft7    = "http://json-schema.org/draft-07/schema"
)

// These limits bound the time to compile a schema and to check a call.
const (
	maxSchemas      = 3000 // schemas in one entry
	maxPatternBytes = 4096
	maxPatternSize  = 5000    // instructions of the compiled pattern
	maxNumberDigits = 1000    // digits of one number, including the zeros of its exponent
	maxSteps        = 1 << 16 // steps for one call, in addition to two for each byte of the call
)

// A rule is a compiled schema and the part of a call that it applies to.
type rule struct {
	entry  string // the entry's name in problems
	line   int
	root   *node    // the whole schema
	member *node    // the schema of properties or traits, which is part of root
	base   []string // the path in a call to the value that root describes
	draft  string   // the draft if $schema is missing

	matcher *matcher // the fast path

	mu     sync.Mutex
	schema *jsonschema.Schema
	steps  int // number of steps left for the current validation; guarded by mu
}

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
	compiler.UseLoader(remoteLoader{})
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
		r.compileError(rule, err)
		return
	}
	rule.matcher = newMatcher(rule.schema)
}

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
	r.problem(rule.root.get("$schema").line, rule.entry, fmt.Sprintf("has the unsupported $schema %q", text), "use "+draft2020+" or "+draft7+"#")
	return rule.draft
}

// checkSchema reports broken references and violations of the limits.
func (r *reader) checkSchema(rule *rule) {
	count := 0
	for n := range rule.root.schemas() {
		if count++; count > maxSchemas {
			r.problem(rule.line, rule.entry, fmt.Sprintf("has more than %d schemas", maxSchemas), "")
			break
		}
		if ref := n.get("$ref"); ref != nil {
			r.checkRef(rule, ref)
		}
	}
	for n := range rule.root.all() {
		if n.kind == numberNode && outOfRange(n.text) {
			r.problem(n.line, rule.entry, fmt.Sprintf("the number %s is out of range", shorten(n.text)), fmt.Sprintf("numbers can have at most %d digits", maxNumberDigits))
		}
	}
}

// checkRef reports a $ref that points to a missing definition. If the $ref is an $id, the
// compiler checks it.
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
		hint = "the plan has no " + key
		if defs := rule.root.get(key); defs != nil && defs.kind == objectNode {
			var names []string
			for _, m := range defs.fields {
				names = append(names, m.key)
			}
			hint = hintFor(name, names)
		}
	}
	r.problem(ref.line, rule.entry, fmt.Sprintf("$ref %q does not exist", ref.text), hint)
}

func hasID(schema *node) bool {
	for n := range schema.schemas() {
		if n.get("$id") != nil {
			return true
		}
	}
	return false
}

// outOfRange reports whether a number has more than maxNumberDigits digits when it is written
// without an exponent. Exact arithmetic with such numbers is slow.
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

// compileError adds the compiler's error to the problems.
func (r *reader) compileError(rule *rule, err error) {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if cause, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			r.metaschemaError(rule, cause)
			return
		}
	}
	if remote, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		line, text := rule.line, remote.URL
		if at := findRef(rule.root, remote.URL); at != nil {
			line, text = at.line, at.text
		}
		r.problem(line, rule.entry, fmt.Sprintf("refers to %s, which is not in this file", shorten(text)), "remote schemas are not supported; copy the schema into $defs")
		return
	}
	if pattern, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		r.problem(rule.lineOf(pattern.Regex), rule.entry, fmt.Sprintf("has the invalid pattern %q: %v", shorten(pattern.Regex), pattern.Err), "patterns use RE2 syntax, without look-around and backreferences")
		return
	}
	r.problem(rule.line, rule.entry, "has an invalid schema: "+err.Error(), "")
}

// metaschemaError adds a violation of the metaschema to the problems. It selects the first one of
// a nested value, if there is one.
func (r *reader) metaschemaError(rule *rule, err *jsonschema.ValidationError) {
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
	if format, ok := leaf.ErrorKind.(*kind.Format); ok { // the reason follows the value
		if value, ok := format.Got.(string); ok {
			text = strings.ReplaceAll(text, value, shorten(value))
		}
	}
	r.problem(rule.lineAt(leaf.InstanceLocation), rule.entry, fmt.Sprintf("%s is not valid JSON Schema: %s", strings.TrimPrefix(at, "/"), text), "")
}

// english formats the library's messages in English.
var english = message.NewPrinter(language.English)

// lineAt returns the line of the value that a JSON pointer selects in the schema. If the value
// has a key, it returns the line of the key.
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

// findRef returns the $ref that resolves to url, or nil if there is none.
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

// lineOf returns the line of the first string or key that equals text.
func (rule *rule) lineOf(text string) int {
	for n := range rule.root.all() {
		if n.kind == stringNode && n.text == text {
			return n.line
		}
		for _, m := range n.fields {
			if m.key == text {
				return m.line
			}
		}
	}
	return rule.line
}

// A remoteLoader is a loader that returns an error for every URL.
type remoteLoader struct{}

func (remoteLoader) Load(url string) (any, error) {
	return nil, errors.New("remote schemas are not supported")
}

// pattern compiles a regular expression. It returns an error if the expression is too large.
func (rule *rule) pattern(text string) (jsonschema.Regexp, error) {
	e, size, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	return &countedPattern{e, size, rule}, nil
}

func compilePattern(text string) (*regexp.Regexp, int, error) {
	if len(text) > maxPatternBytes {
		return nil, 0, fmt.Errorf("longer than %d bytes", maxPatternBytes)
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
		return nil, 0, fmt.Errorf("too complex: %d instructions; the limit is %d", len(program.Inst), maxPatternSize)
	}
	e, err := regexp.Compile(text)
	return e, len(program.Inst), err
}

// A countedPattern is a regular expression that counts the steps of its matches.
type countedPattern struct {
	*regexp.Regexp
	size int
	rule *rule
}

func (p *countedPattern) MatchString(s string) bool {
	p.rule.step(1 + p.size*len(s)/256)
	return p.Regexp.MatchString(s)
}

// The library checks the format of a schema first. So each schema without a format gets
// stepFormat, which counts one step.
const (
	stepFormat  = "plan-step"
	regexFormat = "plan-regex" // used instead of regex, which the library does not let us replace
)

// errTooManySteps is the value of the panic that stops the library after too many steps.
// validate recovers the panic.
var errTooManySteps = errors.New("too many steps")

// step counts n steps. It panics if not enough steps are left.
func (rule *rule) step(n int) {
	if rule.steps -= n; rule.steps < 0 {
		panic(errTooManySteps)
	}
}

// formats returns all formats for the library. Each check of a format counts one step.
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
	for name, check := range input.Formats() {
		counting = append(counting, &jsonschema.Format{Name: name, Validate: func(v any) error { rule.step(1); return check(v) }})
	}
	return counting
}

// librarySchema returns the schema that the library compiles. It is root with a format in each
// subschema.
func librarySchema(root *node) any {
	schemas := map[*node]bool{}
	for n := range root.schemas() {
		schemas[n] = len(n.fields) > 0
	}
	return root.valueWith(func(n *node, object map[string]any) {
		format, isText := object["format"].(string)
		switch {
		case !schemas[n]:
		case isText && format == "regex":
			object["format"] = regexFormat
		case !isText && object["format"] == nil || isText && input.Formats()[format] == nil:
			object["format"] = stepFormat
		}
	})
}
