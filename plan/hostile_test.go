package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

// nested returns inner, enclosed in n pairs of open and closing.
func nested(open, inner, closing string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

// Reading any file and judging any call takes a short time. It does not panic or use the network.
// The time limit of go test detects calls that do not return.
func TestHostilePlansAreBounded(t *testing.T) {
	var asked atomic.Int32
	host := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer host.Close()
	doubling := func(keyword string, levels int) string {
		var b strings.Builder
		for i := range levels {
			fmt.Fprintf(&b, `"s%d":{"%s":[{"$ref":"#/$defs/s%d"},{"$ref":"#/$defs/s%d"}]},`, i, keyword, i+1, i+1)
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/s0","$defs":{%s"s%d":{"type":"string"}}}`, b.String(), levels)
	}
	deepList := nested("[", "", "]", 60)
	for _, c := range []struct {
		name, schema, properties string
		refused                  string // part of the expected error; empty if the plan is valid
	}{
		{"reference to itself", `{"$ref":"#"}`, `{}`, ""},
		{"references in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, `{}`, ""},
		{"dynamic reference to itself", `{"$dynamicAnchor":"a","$dynamicRef":"#a"}`, `{}`, ""},
		{"doubling allOf", doubling("allOf", 40), `{}`, ""},
		{"doubling anyOf", doubling("anyOf", 40), `{}`, ""},
		{"doubling oneOf", doubling("oneOf", 40), `{}`, ""},
		{"doubling not", `{"not":` + doubling("anyOf", 40) + `}`, `{}`, "does not exist"},
		{"doubling at each item", `{"items":{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"type":"string"}]},"type":"array","minItems":1}`, deepList, ""},
		{"doubling with unevaluatedItems", `{"items":{"oneOf":[{"$ref":"#"},{"$ref":"#"}]},"type":"array","unevaluatedItems":false}`, deepList, ""},
		{"doubling of draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","items":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]},"type":"array","minItems":1}`, deepList, ""},
		{"doubling with regex", `{"format":"regex","items":{"format":"regex","anyOf":[{"$ref":"#"},{"$ref":"#"}]},"type":"array","minItems":1}`, deepList, ""},
		{"doubling below an unknown keyword", `{"x":{"items":{"anyOf":[{"$ref":"#/x"},{"$ref":"#/x"}]},"type":"array","minItems":1},"$ref":"#/x"}`, deepList, ""},
		{"remote", `{"$ref":"` + host.URL + `/schema.json"}`, ``, "remote schemas are not supported"},
		{"remote by $id", `{"$id":"` + host.URL + `/","$ref":"schema.json"}`, ``, "remote schemas are not supported"},
		{"remote metaschema", `{"$schema":"` + host.URL + `/schema"}`, ``, "unsupported $schema"},
		{"remote metaschema below", `{"$defs":{"a":{"$id":"a","$schema":"` + host.URL + `/schema"}},"$ref":"a"}`, ``, "remote schemas are not supported"},
		{"remote vocabulary", `{"$vocabulary":{"` + host.URL + `/v":true}}`, `{}`, ""},
		{"local file", `{"$ref":"file:///etc/passwd"}`, ``, "remote schemas are not supported"},
		{"huge pattern", `{"pattern":"` + strings.Repeat("a?", 5000) + `"}`, ``, "longer than 4096 bytes"},
		{"pattern of many instructions", `{"pattern":"` + strings.Repeat("(a{500}){2}", 300) + `"}`, ``, "too complex"},
		{"pattern with counts of counts", `{"pattern":"((a{1000}){1000}){1000}"}`, ``, "invalid repeat count"},
		{"nested pattern", `{"pattern":"` + nested("(", "", ")", 2000) + `"}`, ``, "is not valid regex"},
		{"pattern of a name", `{"patternProperties":{"` + strings.Repeat("(a|b)*", 600) + `":{}}}`, ``, ""},
		{"slow pattern", `{"additionalProperties":{"pattern":"` + strings.Repeat("(a|b|ab)*", 300) + `c"}}`, `{"x":"` + strings.Repeat("ab", 15_000) + `"}`, ""},
		{"huge number", `{"properties":{"a":{"multipleOf":1e99999999}}}`, ``, "out of range"},
		{"number of many digits", `{"properties":{"a":{"maximum":1` + strings.Repeat("0", 100_000) + `}}}`, ``, "out of range"},
		{"huge numbers in a call", `{"properties":{"a":{"items":{"multipleOf":0.01,"maximum":10}}}}`, `{"a":[` + strings.Repeat("1e999999,1e-999999,", 2000) + `1]}`, ""},
		{"huge length", `{"minLength":99999999999999999999}`, `"x"`, ""},
		{"negative length", `{"minLength":-1}`, `"x"`, "is not valid JSON Schema"},
		{"deep schema", nested(`{"items":`, "{}", "}", 90), deepList, ""},
		{"deeper schema", nested(`{"items":`, "{}", "}", 20_000), ``, "more than 100 nested levels"},
		{"deep value in a schema", `{"const":` + nested("[", "", "]", 20_000) + `}`, ``, "more than 100 nested levels"},
		{"many schemas", `{"properties":{` + manyNames(10_000) + `}}`, ``, "more than 3000 schemas"},
		{"many values", `{"enum":[` + strings.Repeat("0,", 500_000) + `0]}`, ``, "values"},
		{"enum of objects", `{"enum":[` + strings.Repeat(`{"a":[1,2]},`, 500) + `{"a":[1,3]}]}`, `{"a":[1,3]}`, ""},
		{"unique items", `{"uniqueItems":true}`, `[` + strings.Repeat(`{"a":1},`, 3000) + `0]`, ""},
		{"anchors of one name", `{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, ``, "duplicate anchor"},
		{"schema is a number", `7`, ``, "JSON Schema"},
		{"required of the wrong type", `{"required":"a"}`, ``, "is not valid JSON Schema"},
		{"properties of the wrong type", `{"properties":[1]}`, ``, "is not valid JSON Schema"},
		{"type of the wrong type", `{"type":{"a":1}}`, ``, "is not valid JSON Schema"},
		{"deep call", `{"items":{"$ref":"#"}}`, nested("[", "", "]", 900), ""},
		{"deeper call", `{"items":{"$ref":"#"}}`, nested("[", "", "]", 100_000), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(`{"plan":"hostile","track":{"E":{"schema":%s}}}`, c.schema)
			p, err := plan.Parse("p.json", []byte(text))
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("got %v, want one with %q", shortened(err), c.refused)
				}
				var problems plan.Problems
				if !errors.As(err, &problems) {
					t.Errorf("%T is not Problems", err)
				}
				return
			}
			if err != nil {
				t.Fatal(shortened(err))
			}
			for _, v := range p.Judge(fmt.Appendf(nil, `{"type":"track","event":"E","properties":%s}`, c.properties)) {
				if len(v.Found) > 100 {
					t.Errorf("found %d bytes", len(v.Found))
				}
			}
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests to the host", n)
	}
}

func shortened(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%.300s", err.Error())
}

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"p%d":{}`, i)
	}
	return strings.Join(names, ",")
}

func TestHostileYAMLIsBounded(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("x-a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n")
	for i := range 12 {
		fmt.Fprintf(&laughs, "x-a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	for name, text := range map[string]string{
		"aliases of aliases": laughs.String(),
		"flow lists":         "a: " + strings.Repeat("[", 200_000),
		"flow mappings":      "a: " + strings.Repeat("{a: ", 200_000),
		"lists in lists":     strings.Repeat("- ", 200_000) + "a",
		"keys of keys":       strings.Repeat("? ", 200_000) + "a",
		"anchors":            "a: " + strings.Repeat("&a ", 200_000) + "a",
		"tags":               "a: " + strings.Repeat("! ", 200_000) + "a",
		"zero bytes":         strings.Repeat("\x00", 1000),
		"no UTF-8":           "plan: \xff\xfe\ntrack: {A: }\n\xff: 1",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := plan.Parse("p.yaml", []byte(text)); err == nil {
				t.Error("Parse accepts it")
			}
		})
	}
}

// hostileSchema returns a random schema, which may combine unrelated keywords.
func hostileSchema(r *rand.Rand, depth int) any {
	if depth == 0 || r.IntN(12) == 0 {
		return []any{true, false, object{}, object{"$ref": "#"}, object{"type": "string"}, nil, 7, "x", []any{}}[r.IntN(9)]
	}
	s := object{}
	for range 1 + r.IntN(4) {
		switch r.IntN(14) {
		case 0, 1:
			s[[]string{"allOf", "anyOf", "oneOf", "prefixItems"}[r.IntN(4)]] = []any{hostileSchema(r, depth-1), hostileSchema(r, depth-1)}
		case 2, 3:
			s[[]string{"items", "not", "if", "then", "else", "contains", "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"}[r.IntN(10)]] = hostileSchema(r, depth-1)
		case 4, 5:
			s[[]string{"properties", "patternProperties", "$defs", "dependentSchemas"}[r.IntN(4)]] = object{"a": hostileSchema(r, depth-1), "b": hostileSchema(r, depth-1)}
		case 6, 7:
			s["$ref"] = []string{"#", "#/$defs/a", "#/properties/b", "#/items", "#a", "http://127.0.0.1:1/x", "x.json", "#/allOf/0", "%zz", "#/%"}[r.IntN(10)]
		case 8:
			s["type"] = []any{"object", "array", "string", []any{"integer", "null"}, "nothing", 1}[r.IntN(6)]
		case 9:
			s["pattern"] = []string{"^a*$", "(a|b)*c", "(?=x)", "[", strings.Repeat("(a?){9}", r.IntN(50))}[r.IntN(5)]
		case 10:
			s[[]string{"minimum", "maximum", "multipleOf", "minLength", "maxItems", "minProperties"}[r.IntN(6)]] = []any{0, -1, 1.5, json.Number("1e400"), json.Number("1e99999"), "x"}[r.IntN(6)]
		case 11:
			s["required"] = []any{[]any{"a"}, []any{}, true, "a", []any{1}}[r.IntN(5)]
		case 12:
			s[[]string{"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$schema"}[r.IntN(5)]] = []string{"a", "#a", "http://127.0.0.1:1/y", ""}[r.IntN(4)]
		case 13:
			s["enum"] = []any{[]any{}, []any{1, "a"}, []any{object{"a": nil}}, 3}[r.IntN(4)]
		}
	}
	return s
}

type object = map[string]any

func TestRandomPlansAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	values := []string{`{}`, `{"a":{"a":[1,"a",null]},"b":[[],[{}]]}`, `[[["a"]],1e99999]`, `"aaaaaaaaaaaaaaaaaaaaaaac"`, `1.5`, nested(`{"a":`, `[1]`, `}`, 30)}
	read := 0
	for range 1000 {
		schema, err := json.Marshal(hostileSchema(r, 6))
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Parse("p.json", fmt.Appendf(nil, `{"track":{"E":{"schema":%s}}}`, schema))
		if err != nil {
			continue
		}
		read++
		for _, v := range values {
			call := fmt.Appendf(nil, `{"type":"track","event":"E","properties":%s}`, v)
			first, second := p.Judge(call), p.Judge(call)
			if fmt.Sprint(first) != fmt.Sprint(second) {
				t.Errorf("%s of %s\n%v\n%v", schema, call, first, second)
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d of 1,000 plans were read", read)
	}
}

// FuzzParse parses arbitrary plans and judges a call with each valid plan.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/shop.yaml", "testdata/protocols-rules.json", "testdata/protocols-events.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(`{"type":"track","event":"Order Completed","properties":{"orderId":1}}`))
	}
	f.Add([]byte("track: {E: {schema: {$ref: '#'}}}"), []byte(`{"type":"track","event":"E"}`))
	f.Add([]byte("a: &a [*a]\n? [b]\n: |\n  c\n--- !x"), []byte(`[]`))
	f.Fuzz(func(t *testing.T, text, call []byte) {
		p, err := plan.Parse("p.yaml", text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error with an empty message")
			}
			return
		}
		for _, e := range p.Events() {
			if !json.Valid(e.Schema.JSON()) {
				t.Errorf("%s of %s is not JSON", e.Schema.JSON(), e)
			}
		}
		_ = plan.Diff(p, p)
		p.Judge(call)
	})
}

// FuzzJudge judges arbitrary bytes as a call.
func FuzzJudge(f *testing.F) {
	p := shop(f)
	f.Add([]byte(`{"type":"track","event":"Order Completed","properties":{"orderId":"7","total":1e5,"currency":"EUR","items":[{"sku":"\u0041"}]}}`))
	f.Add([]byte(`{"type":"identify","traits":{"email":"a@b.example","age":1.0,"age":2}}`))
	f.Add([]byte(` {"type" : "page" , "name":"Docs","properties":{"path":"\ud800"}} `))
	f.Fuzz(func(t *testing.T, call []byte) {
		violations := p.Judge(call)
		object := len(violations) == 0 || violations[0].Kind != plan.MalformedCall || violations[0].Pointer != ""
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(call, &fields); (err == nil && fields != nil) != object {
			t.Errorf("%q: %v, encoding/json: %v", call, violations, err)
		}
		for _, v := range violations {
			if v.String() == "" || v.Kind == "" {
				t.Errorf("%+v", v)
			}
		}
	})
}
