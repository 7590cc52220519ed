package plan

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// planOf returns a plan that contains one event with the given schema. If the schema is invalid, it
// returns nil.
func planOf(schema string) *Plan {
	p, _ := Parse("plan.json", fmt.Appendf(nil, `{"plan":"p","track":{"E":{"schema":%s}}}`, schema))
	return p
}

// compareWithLibrary fails if the matcher accepts a value that the library rejects. It returns both
// results.
func compareWithLibrary(t *testing.T, p *Plan, name, schema, value string) (quick, whole bool) {
	t.Helper()
	if p == nil {
		return false, false
	}
	call := fmt.Appendf(nil, `{"type":"track","event":"E","properties":%s}`, value)
	h, err := input.Read(call)
	if err != nil || h.Properties == nil {
		return false, false
	}
	rule := p.Find("track", "E").rule
	quick = p.Accepts("track", "E", call, h.Properties)
	violations := rule.explain(p, &h, rule.subject(call, h.Properties))
	if quick && violations != nil {
		t.Errorf("%s: the schema %s refuses %s, but the matcher accepts it: %v", name, schema, value, violations)
	}
	return quick, violations == nil
}

// suiteValues calls f for each schema in the JSON Schema test suite, with the values to test.
func suiteValues(tb testing.TB, f func(draft, schema string, values []string)) {
	tb.Helper()
	archive, err := zip.OpenReader("testdata/json-schema-test-suite.zip")
	if err != nil {
		tb.Fatal(err)
	}
	defer archive.Close()
	for _, file := range archive.File {
		draft, _, _ := strings.Cut(strings.TrimPrefix(file.Name, "tests/"), "/")
		if path.Ext(file.Name) != ".json" {
			continue
		}
		in, err := file.Open()
		if err != nil {
			tb.Fatal(err)
		}
		text, err := io.ReadAll(in)
		in.Close()
		var groups []struct {
			Schema json.RawMessage
			Tests  []struct{ Data json.RawMessage }
		}
		if err == nil {
			err = json.Unmarshal(text, &groups)
		}
		if err != nil {
			tb.Fatal(err)
		}
		for _, group := range groups {
			schema := string(group.Schema)
			if draft == "draft7" && strings.HasPrefix(schema, "{") && !strings.Contains(schema, "$schema") && strings.TrimSpace(schema[1:]) != "}" {
				schema = `{"$schema":"http://json-schema.org/draft-07/schema#",` + schema[1:]
			}
			var values []string
			for _, test := range group.Tests {
				values = append(values, string(test.Data))
			}
			f(draft, schema, values)
		}
	}
}

func TestMatcherAgreesWithSuite(t *testing.T) {
	quick, whole := 0, 0
	suiteValues(t, func(draft, schema string, values []string) {
		p := planOf(schema)
		for _, value := range values {
			q, w := compareWithLibrary(t, p, draft, schema, value)
			if q {
				quick++
			}
			if w {
				whole++
			}
		}
	})
	if quick < 300 {
		t.Errorf("the matcher accepts only %d of %d values", quick, whole)
	}
	t.Logf("the matcher accepts %d of the %d values that the library does", quick, whole)
}

// FuzzMatcher searches for a value that the matcher accepts but the library rejects.
func FuzzMatcher(f *testing.F) {
	n := 0
	suiteValues(f, func(_, schema string, values []string) {
		if n++; n%10 == 0 {
			f.Add(schema, values[0])
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		g := schemaMaker{r}
		f.Add(g.schema(3), g.value(3))
	}
	f.Fuzz(func(t *testing.T, schema, value string) { compareWithLibrary(t, planOf(schema), "fuzz", schema, value) })
}

func TestMatcherAgreesWithLibrary(t *testing.T) {
	const schemas, values = 800, 30
	quick, whole := 0, 0
	for i := range uint64(schemas) {
		g := schemaMaker{rand.New(rand.NewPCG(i, 7))}
		schema := g.schema(3)
		p := planOf(schema)
		for range values {
			q, w := compareWithLibrary(t, p, fmt.Sprint("seed ", i), schema, g.value(3))
			if q {
				quick++
			}
			if w {
				whole++
			}
		}
	}
	if quick < 1000 || quick == whole {
		t.Errorf("the matcher accepts %d values, the library %d", quick, whole)
	}
	t.Logf("the matcher accepts %d of the %d values that the library does", quick, whole)
}

// A schemaMaker generates random schemas, most of them typical of plans. It also generates values
// that match a schema or almost match it.
type schemaMaker struct{ *rand.Rand }

func (g schemaMaker) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g schemaMaker) name() string { return g.pick("a", "b", "c", "ä", "", "a b") }

func (g schemaMaker) number() string {
	return g.pick("0", "1", "2", "-1", "0.1", "0.10", "1.0", "1e0", "10", "0.3", "0.30000000000000004", "123456789012345", "123456789012345678", "1E-400", "-0", "-0.0", "99999999999999999999999")
}

func (g schemaMaker) text() string {
	return g.pick(`""`, `"a"`, `"abc"`, `"ä"`, `"\u0061"`, `"a\nb"`, `"äöü€"`, `"\ud83d\ude00"`, `"EUR"`, `"2026-01-31"`, `"2026-01-27T12:00:00.5Z"`, `"2026-13-01T25:00:00Z"`,
		`"a@b.example"`, `"a..b@c"`, `"@b"`, `"a@-b"`, `"a@b_c"`, `"0190b6c3-6c6e-7d2a-8a5b-0123456789ab"`, `"https://a.example/b?c=d"`, `"https://"`, `"//x"`, "\"\xff\"", "\"a\xc3\"")
}

func (g schemaMaker) value(depth int) string {
	switch kind := g.IntN(9); {
	case kind < 2:
		return g.number()
	case kind < 4:
		return g.text()
	case kind == 4:
		return g.pick("true", "false", "null")
	case depth == 0:
		return g.pick("{}", "[]")
	case kind == 5:
		var items []string
		for range g.IntN(4) {
			items = append(items, g.value(depth-1))
		}
		return "[" + strings.Join(items, g.pick(",", " ,\n")) + "]"
	}
	var fields []string
	for range g.IntN(5) {
		key, err := json.Marshal(g.name())
		if err != nil || g.IntN(20) == 0 {
			key = []byte(g.pick(`"\u0061"`, "\"\xff\"", `"\ufffd"`))
		}
		fields = append(fields, string(key)+g.pick(":", " : ")+g.value(depth-1))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (g schemaMaker) schema(depth int) string {
	if g.IntN(12) == 0 {
		return g.pick("true", "false", "{}", `{"$ref":"#"}`, `{"$ref":"#","minLength":1}`, `{"$ref":"#/properties/a"}`)
	}
	var keywords []string
	add := func(name, value string) { keywords = append(keywords, fmt.Sprintf("%q:%s", name, value)) }
	sometimes := func(name string, value func() string) {
		if g.IntN(5) == 0 {
			add(name, value())
		}
	}
	count := func() string { return g.pick("0", "1", "2", "3") }
	if depth == 3 && g.IntN(3) == 0 {
		add("$schema", `"http://json-schema.org/draft-07/schema#"`)
	}
	if g.IntN(4) > 0 {
		add("type", g.pick(`"object"`, `"object"`, `"string"`, `"number"`, `"integer"`, `"array"`, `"boolean"`, `"null"`, `["string","null"]`, `["object","number","array"]`))
	}
	sometimes("minimum", g.number)
	sometimes("maximum", g.number)
	sometimes("exclusiveMinimum", g.number)
	sometimes("exclusiveMaximum", g.number)
	sometimes("minLength", count)
	sometimes("maxLength", count)
	sometimes("minItems", count)
	sometimes("maxItems", count)
	sometimes("pattern", func() string { return g.pick(`"^a"`, `"^[a-z]*$"`, `"."`, `"^.$"`, `"\uFFFD"`) })
	sometimes("format", func() string {
		return g.pick(`"date"`, `"date-time"`, `"email"`, `"uri"`, `"uuid"`, `"hostname"`, `"regex"`, `"unknown"`)
	})
	sometimes("enum", func() string { return "[" + g.value(1) + "," + g.text() + "," + g.number() + "]" })
	if g.IntN(9) == 0 {
		add("const", g.value(1))
	}
	if g.IntN(15) == 0 {
		add(g.pick("not", "contains", "propertyNames", "if"), "{}")
	}
	if g.IntN(15) == 0 {
		add("uniqueItems", "true")
	}
	if depth > 0 {
		sometimes("items", func() string { return g.schema(depth - 1) })
		sometimes("additionalProperties", func() string { return g.pick("true", "false", g.schema(depth-1)) })
		if g.IntN(2) == 0 {
			var properties []string
			for range g.IntN(4) {
				key, _ := json.Marshal(g.name())
				properties = append(properties, string(key)+":"+g.schema(depth-1))
			}
			add("properties", "{"+strings.Join(properties, ",")+"}")
		}
		sometimes("required", func() string { return g.pick(`["a"]`, `["a","b"]`, `["z"]`, `["\ufffd"]`) })
	}
	return "{" + strings.Join(keywords, ",") + "}"
}

// The matcher accepts typical values, so the library is not needed for them.
func TestMatcherAcceptsTypicalValues(t *testing.T) {
	for _, c := range []struct{ schema, value string }{
		{`{}`, `{"a":[1,{"b":"\n"}]}`},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{ "a" : "x" }`},
		{`{"properties":{"a":{"type":"number","minimum":0}}}`, `{"a":25.5}`},
		{`{"properties":{"a":{"type":"integer","minimum":1,"maximum":1}}}`, `{"a":1}`},
		{`{"properties":{"a":{"enum":["EUR","USD"]}}}`, `{"a":"USD"}`},
		{`{"properties":{"a":{"type":["string","null"],"maxLength":3}}}`, `{"a":"äöü"}`},
		{`{"properties":{"a":{"format":"email"},"b":{"format":"date-time"},"c":{"format":"uuid"},"d":{"format":"uri"},"e":{"format":"date"}}}`,
			`{"a":"a.b+c@d.example","b":"2026-01-27T12:00:00.123Z","c":"0190b6c3-6c6e-7d2a-8a5b-0123456789ab","d":"https://a.example/b-c?d=e","e":"2026-01-27"}`},
		{`{"properties":{"a":{"pattern":"^[A-Z]+-[0-9]+$"}}}`, `{"a":"TEA-7"}`},
		{`{"properties":{"a":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/i"}}},"$defs":{"i":{"required":["sku"],"properties":{"sku":{"type":"string"}}}}}`, `{"a":[{"sku":"x"},{"sku":"y","n":1}]}`},
		{`{"additionalProperties":{"type":"boolean"}}`, `{"a":true,"b":false}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"const":"y"}}}`, `{"a":"y"}`},
	} {
		if quick, whole := compareWithLibrary(t, planOf(c.schema), "", c.schema, c.value); !quick || !whole {
			t.Errorf("%s of %s: the matcher %v, the library %v", c.value, c.schema, quick, whole)
		}
	}
}
