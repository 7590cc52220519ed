package plan_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

func shop(t testing.TB) *plan.Plan {
	t.Helper()
	p, err := plan.Load("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestJudge(t *testing.T) {
	p := shop(t)
	for _, c := range []struct {
		name, call string
		want       []string
	}{
		{"as planned", `{"type":"track","event":"Order Completed","properties":{"orderId":"7","total":0,"currency":"EUR","coupon":null,"items":[{"sku":"a","quantity":1.0,"price":0.5}]}}`, nil},
		{"any other page", `{"type":"page","name":"Any"}`, nil},
		{"type that the plan does not have", `{"type":"screen","name":"x"}`, nil},
		{"alias", `{"type":"alias"}`, nil},
		{"event without rules", `{"type":"track","event":"Cart Emptied","properties":{"x":1}}`, nil},
		{"null in place of traits", `{"type":"identify","traits":null}`, nil},
		{"escaped letters", `{"type":"track","event":"Order\u0020Completed","properties":{"order\u0049d":"7","total":1e2,"currency":"\u0045UR"}}`, nil},
		{"the last of equal fields counts", `{"type":"track","event":"Cart Emptied","event":"Product Viewed","properties":{"sku":1,"sku":"ABC-1"}}`, nil},
		{"many", `{"type":"track","event":"Order Completed","messageId":"m1","properties":{"orderId":7,"currency":"eur","oderId":1,"cuopon":1,"items":[{"quantity":0.5},{"sku":"a","price":-1}]}}`, []string{
			`track "Order Completed": /properties/cuopon is not in the plan; did you mean coupon? (testdata/shop.yaml:20)`,
			`track "Order Completed": /properties/currency is "eur"; expected one of "EUR", "USD"; did you mean "EUR"? (testdata/shop.yaml:17)`,
			`track "Order Completed": /properties/items/0/quantity is 0.5, a number; expected an integer (testdata/shop.yaml:9)`,
			`track "Order Completed": /properties/items/0/sku is missing; expected a string (testdata/shop.yaml:8)`,
			`track "Order Completed": /properties/items/1/price is -1; expected at least 0 (testdata/shop.yaml:4)`,
			`track "Order Completed": /properties/oderId is not in the plan (testdata/shop.yaml:20)`,
			`track "Order Completed": /properties/orderId is 7, a number; expected a string (testdata/shop.yaml:15)`,
			`track "Order Completed": /properties/total is missing; expected a number (testdata/shop.yaml:16)`,
		}},
		{"name in another case", `{"type":"track","event":"order_completed"}`, []string{`track "order_completed" is not in the plan; did you mean "Order Completed"? (testdata/shop.yaml)`}},
		{"name of nothing", `{"type":"track"}`, []string{`track is not in the plan (testdata/shop.yaml)`}},
		{"pattern and format", `{"type":"track","event":"Product Viewed","properties":{"sku":"abc","at":"yesterday"}}`, []string{
			`track "Product Viewed": /properties/at is "yesterday"; expected a string of format date-time (testdata/shop.yaml:24)`,
			`track "Product Viewed": /properties/sku is "abc"; expected a string that matches ^[A-Z]{3}-[0-9]+$ (testdata/shop.yaml:23)`,
		}},
		{"no properties", `{"type":"track","event":"Product Viewed"}`, []string{`track "Product Viewed": /properties/sku is missing; expected a string (testdata/shop.yaml:23)`}},
		{"properties are a list", `{"type":"track","event":"Product Viewed","properties":[]}`, []string{`track "Product Viewed": /properties is [], an array; expected an object (testdata/shop.yaml:22)`}},
		{"trait", `{"type":"identify","traits":{"email":"x"}}`, []string{`identify: /traits/email is "x"; expected a string of format email (testdata/shop.yaml:28)`}},
		{"enum without a type", `{"type":"group","traits":{"plan":"Pro"}}`, []string{`group: /traits/plan is "Pro"; expected one of "free", "pro"; did you mean "pro"? (testdata/shop.yaml:32)`}},
		{"page of a name", `{"type":"page","name":"Docs"}`, []string{`page "Docs": /properties/path is missing; expected a string (testdata/shop.yaml:34)`}},
		{"no type", `{"event":"x"}`, []string{`a call: /type is missing; expected a type of call, such as track (testdata/shop.yaml)`}},
		{"no object", `[1]`, []string{`a call: found [1]; expected one JSON object with at most 1000 nested levels (testdata/shop.yaml)`}},
		{"no JSON", `{"type":"track",}`, []string{`a call: found {"type":"track",}; expected one JSON object with at most 1000 nested levels (testdata/shop.yaml)`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range p.Judge([]byte(c.call)) {
				got = append(got, v.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// judged judges a call with the properties against the schema, and returns the violations.
func judged(t *testing.T, schema, properties string) string {
	t.Helper()
	p, err := plan.Parse("p", fmt.Appendf(nil, "track:\n  E:\n    schema: %s\n", schema))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, v := range p.Judge(fmt.Appendf(nil, `{"type":"track","event":"E","properties":%s}`, properties)) {
		texts = append(texts, string(v.Kind)+": "+v.Text())
	}
	return strings.Join(texts, "\n")
}

func TestKeywordViolations(t *testing.T) {
	for _, c := range []struct{ schema, properties, want string }{
		{`{properties: {a: {minLength: 2}}}`, `{"a":"x"}`, `invalid value: /properties/a is "x"; expected at least 2 characters`},
		{`{properties: {a: {maxLength: 1}}}`, `{"a":"xy"}`, `invalid value: /properties/a is "xy"; expected at most 1 character`},
		{`{properties: {a: {minItems: 1}}}`, `{"a":[]}`, `invalid value: /properties/a is []; expected at least 1 item`},
		{`{properties: {a: {maxItems: 1}}}`, `{"a":[1,2]}`, `invalid value: /properties/a is [1,2]; expected at most 1 item`},
		{`{properties: {a: {uniqueItems: true}}}`, `{"a":[1,2,1]}`, `invalid value: /properties/a is [1,2,1]; expected unique items, but items 1 and 3 are equal`},
		{`{properties: {a: {contains: {type: string}}}}`, `{"a":[1]}`, `invalid value: /properties/a is [1]; expected an item that matches "contains"`},
		{`{properties: {a: {maximum: 1.50}}}`, `{"a":2}`, `invalid value: /properties/a is 2; expected at most 1.50`},
		{`{properties: {a: {exclusiveMinimum: 2}}}`, `{"a":2}`, `invalid value: /properties/a is 2; expected more than 2`},
		{`{properties: {a: {exclusiveMaximum: 2}}}`, `{"a":2}`, `invalid value: /properties/a is 2; expected less than 2`},
		{`{properties: {a: {multipleOf: 0.01}}}`, `{"a":0.015}`, `invalid value: /properties/a is 0.015; expected a multiple of 0.01`},
		{`{properties: {a: {const: x}}}`, `{"a":"X"}`, `invalid value: /properties/a is "X"; expected "x"; did you mean "x"?`},
		{`{properties: {a: {not: {type: string}}}}`, `{"a":"X"}`, `invalid value: /properties/a is "X"; expected a value that does not match the "not" schema`},
		{`{properties: {a: {type: [string, "null"]}}}`, `{"a":1}`, `wrong type: /properties/a is 1, a number; expected null or a string`},
		{`{properties: {a: {anyOf: [{type: string}, {type: integer}]}}}`, `{"a":true}`, `wrong type: /properties/a is true, a boolean; expected a string or an integer`},
		{`{properties: {a: {oneOf: [{type: string}, {type: object, required: [b]}]}}}`, `{"a":{}}`, `missing property: /properties/a/b is missing; expected a value`},
		{`{properties: {a: {oneOf: [{type: number}, {type: integer}]}}}`, `{"a":1}`, `invalid value: /properties/a is 1; expected exactly one of the alternatives, but 1 and 2 match`},
		{`{minProperties: 1}`, `{}`, `invalid value: /properties is {}; expected at least 1 property`},
		{`{maxProperties: 0}`, `{"a":1}`, `invalid value: /properties is {"a":1}; expected at most 0 properties`},
		{`{properties: {gone: false, b: true}}`, `{"gone":1}`, `unplanned property: /properties/gone is not in the plan`},
		{`{properties: {abc: true}, unevaluatedProperties: false}`, `{"abd":1}`, `unplanned property: /properties/abd is not in the plan; did you mean abc?`},
		{`{propertyNames: {maxLength: 2}}`, `{"abc":1}`, `unplanned property: /properties/abc is not in the plan`},
		{`{dependentRequired: {a: [b]}}`, `{"a":1}`, `missing property: /properties/b is missing; expected a value because a is present`},
		{`{if: {required: [a]}, then: {required: [b]}}`, `{"a":1}`, `missing property: /properties/b is missing; expected a value`},
		{`{properties: {a: {$ref: '#/$defs/x'}}, $defs: {x: {type: string}}}`, `{"a":1}`, `wrong type: /properties/a is 1, a number; expected a string`},
		{`{properties: {"a/b~c": {items: {type: string}}}}`, `{"a/b~c":[1]}`, `wrong type: /properties/a~1b~0c/0 is 1, a number; expected a string`},
		{`{properties: {a: {format: regex}}}`, `{"a":"(?=x)"}`, `invalid value: /properties/a is "(?=x)"; expected a string of format regex`},
		{`{$schema: "http://json-schema.org/draft-07/schema#", properties: {a: {items: [{type: string}], additionalItems: false}}}`, `{"a":["x",1]}`, `invalid value: /properties/a is ["x",1]; expected 1 item fewer`},
	} {
		if got := judged(t, c.schema, c.properties); got != c.want {
			t.Errorf("%s of %s\ngot  %s\nwant %s", c.schema, c.properties, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", ``, `p.yaml: is empty`},
		{"UTF-16", "\xff\xfet\x00", `p.yaml: is not UTF-8; save the file in this encoding`},
		{"byte order mark", "\uFEFFplan: x", `p.yaml:1: describes no calls; add track, identify, group, page or screen`},
		{"no mapping", `x`, `p.yaml:1: must be a mapping, not a string; start with plan: NAME`},
		{"no calls", `plan: x`, `p.yaml:1: describes no calls; add track, identify, group, page or screen`},
		{"member", "plan: x\ntrak: {}\ntrack: {A: }", `p.yaml:2: unknown key "trak"; did you mean "track"?`},
		{"description", "plan: x\ndescription: 5\ntrack: {A: }", `p.yaml:2: description must be a string, not a number`},
		{"description of a schema", "track:\n  A:\n    schema: {}\n    description: [x]", `p.yaml:4: description must be a string, not a list`},
		{"description in the short form", "track:\n  A:\n    description: 5", `p.yaml:3: track "A": description is not valid JSON Schema: got number, want string`},
		{"Protocols with a description of another type", `{"description":5,"rules":[{"type":"TRACK","key":"A","jsonSchema":{}}]}`, `p.json:1: description must be a string, not a number`},
		{"rule with a description of another type", `{"rules":[{"type":"TRACK","key":"A","description":5,"jsonSchema":{}}]}`, `p.json:1: description must be a string, not a number`},
		{"event with a description of another type", `{"rules":{"events":[{"name":"A","description":true,"rules":{}}]}}`, `p.json:1: description must be a string, not a boolean`},
		{"keyword", "track:\n  A:\n    propertes: {}", `p.yaml:3: track "A": unknown JSON Schema keyword "propertes"; did you mean "properties"?`},
		{"nested keyword", "track:\n  A:\n    properties:\n      a: {type: string, requird: true}", `p.yaml:4: track "A": unknown JSON Schema keyword "requird"; did you mean "required"?`},
		{"type", "track:\n  A:\n    properties:\n      a: {type: strng}", `p.yaml:4: track "A": properties/a/type is not valid JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`},
		{"schema is a string", "track:\n  A:\n    properties:\n      a: string", `p.yaml:4: track "A": must be a schema, not a string; for example {type: string}`},
		{"remote", "track:\n  A:\n    properties:\n      a: {$ref: 'https://example.com/a.json'}", `p.yaml:4: track "A": refers to https://example.com/a.json, which is not in this file; remote schemas are not supported; copy the schema into $defs`},
		{"file", "track:\n  A:\n    properties:\n      a: {$ref: '/etc/passwd'}", `p.yaml:4: track "A": refers to /etc/passwd, which is not in this file; remote schemas are not supported; copy the schema into $defs`},
		{"definition", "$defs: {money: {}}\ntrack:\n  A:\n    properties:\n      a: {$ref: '#/$defs/mony'}", `p.yaml:5: track "A": $ref "#/$defs/mony" does not exist; did you mean "money"?`},
		{"pattern", "track:\n  A:\n    properties:\n      a: {pattern: '(?=x)'}", "p.yaml:4: track \"A\": properties/a/pattern is not valid JSON Schema: '(?=x)' is not valid regex: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{"draft", "track:\n  A:\n    schema:\n      $schema: http://json-schema.org/draft-04/schema#", `p.yaml:4: track "A": has the unsupported $schema "http://json-schema.org/draft-04/schema#"; use https://json-schema.org/draft/2020-12/schema or http://json-schema.org/draft-07/schema#`},
		{"properties of traits", "identify:\n  properties: {}", `p.yaml:2: identify: has properties; identify calls have traits`},
		{"next to schema", "track:\n  A:\n    schema: {}\n    properties: {}", `p.yaml:4: track "A": has properties next to schema; move it into schema`},
		{"duplicate entry", "track:\n  A: {}\n  A: {}", `p.yaml:3: is not valid YAML: mapping key "A" already defined at [2:3]`},
		{"tab", "track:\n\tA: {}", `p.yaml:2: is not valid YAML: found character '	' that cannot start any token`},
		{"tag", "track: !!binary x", `p.yaml:1: has the unsupported tag !!binary`},
		{"alias", "track: *x", `p.yaml:1: has the alias *x without a preceding anchor &x`},
		{"recursive alias", "track: &x {A: *x}", `p.yaml:1: has the alias *x inside its anchor &x`},
		{"repeated anchor", "track:\n  A: &x {}\n  B: &x {}", `p.yaml:3: defines the anchor &x twice`},
		{"repeated anchor of a key", "track:\n  &x A: {}\n  &x B: {}", `p.yaml:3: defines the anchor &x twice`},
		{"documents", "track: {A: }\n---\ntrack: {B: }", `p.yaml:3: has more than one YAML document`},
		{"number", "track: {A: {minProperties: 1e9999}}", `p.yaml:1: track "A": the number 1e9999 is out of range; numbers can have at most 1000 digits`},
		{"JSON", "{\"track\": {\n\"A\": ]}", `p.json:2: is not valid JSON: expected a value`},
		{"duplicate JSON key", "{\"track\": {\n\"A\": {}, \"A\": {}}}", `p.json:2: has the duplicate key "A"`},
		{"truncated JSON", "{\"track\": {\n", `p.json:2: is not valid JSON: expected a key in double quotes`},
		{"JSON with trailing text", "{\"track\": {}} {}", `p.json:1: is not valid JSON: text after the value`},
		{"Protocols without a schema", `{"rules":[{"type":"TRACK","key":"A"}]}`, `p.json:1: track "A": has no jsonSchema; an export needs one for each event`},
		{"track event without a name", `{"rules":{"events":[{"name":"","eventType":"track","rules":{}}]}}`, `p.json:1: events: has a track event without a name`},
		{"event without a name or a type", `{"rules":{"events":[{"rules":{}}]}}`, `p.json:1: events: has a track event without a name`},
		{"event of another type", `{"rules":{"events":[{"name":"","eventType":"alias","rules":{}}]}}`, `p.json:1: events: has the unknown eventType "alias"; use track, identify, group, page or screen`},
		{"identify twice", `{"rules":{"events":[{"name":"","eventType":"identify","rules":{}},{"name":"x","eventType":"identify","rules":{}}]}}`, `p.json:1: identify: is defined twice`},
		{"Protocols with another type", `{"rules":[{"type":"CLICK","key":"A"}]}`, `p.json:1: rule 1: has the unknown type "CLICK"; use TRACK, IDENTIFY, GROUP, PAGE, SCREEN or COMMON`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := "p.yaml"
			if strings.HasPrefix(c.text, "{") {
				file = "p.json"
			}
			_, err := plan.Parse(file, []byte(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestEventSchema(t *testing.T) {
	p := shop(t)
	if p.Name() != "shop" || p.Description() != "Customer activity in the shop." || p.File() != "testdata/shop.yaml" {
		t.Errorf("%q %q %q", p.Name(), p.Description(), p.File())
	}
	e := p.Find("track", "Order Completed")
	if e.Description != "The customer paid" || e.Line != 12 || e.Member != "properties" || !e.Schema.Closed {
		t.Errorf("%+v", e)
	}
	var names []string
	for _, property := range e.Schema.Properties {
		names = append(names, fmt.Sprintf("%s %t %d", property.Name, property.Required, property.Line))
	}
	if want := []string{"orderId true 15", "total true 16", "currency true 17", "coupon false 18", "items false 19"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	items, _ := e.Schema.Property("items")
	item := items.Schema.Items
	if item.RefName != "#/$defs/item" || item.Resolve() == item || len(item.Resolve().Properties) != 3 {
		t.Errorf("%+v", item)
	}
	if coupon, _ := e.Schema.Property("coupon"); !coupon.Schema.Nullable() {
		t.Error("coupon is not nullable")
	}
	if _, ok := e.Schema.Property("none"); ok {
		t.Error("a property named none exists")
	}
	if got, want := string(items.Schema.JSON()), `{"type":"array","items":{"$ref":"#/$defs/item"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if e := p.EventOf([]byte(`{"type":"page","name":"X"}`)); e == nil || e.String() != "page of any name" {
		t.Errorf("got %v", e)
	}
}

func TestYAMLAnchorsAndMergeKeys(t *testing.T) {
	p, err := plan.Parse("p.yaml", []byte(`track:
  A: &a
    properties: {x: {type: string, required: true}, 12: {type: integer}}
  B:
    <<: *a
    description: more
  C: &c {properties: {y: &y {type: boolean}, z: *y}}
  D: *c
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		call string
		want int
	}{
		{`{"type":"track","event":"B","properties":{}}`, 1},
		{`{"type":"track","event":"B","properties":{"x":"","12":"no"}}`, 1},
		{`{"type":"track","event":"C","properties":{"z":1}}`, 1},
		{`{"type":"track","event":"C","properties":{"z":true}}`, 0},
	} {
		if got := p.Judge([]byte(c.call)); len(got) != c.want {
			t.Errorf("%s: got %v, want %d", c.call, got, c.want)
		}
	}
}

func TestProtocolsExports(t *testing.T) {
	files, err := filepath.Glob("testdata/protocols-*.json")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p, err := plan.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name() != "Kicks App" {
				t.Errorf("the name is %q", p.Name())
			}
			for _, c := range []struct{ call, want string }{
				{`{"type":"track","event":"Order Completed","userId":"u","properties":{"orderId":"7","total":1}}`, ``},
				{`{"type":"track","event":"Order Completed","userId":"u","properties":{"orderId":7}}`, `wrong type /properties/orderId, missing property /properties/total`},
				{`{"type":"track","event":"Order Completed","userId":"u"}`, `missing property /properties`},
				{`{"type":"track","event":"Order Completed","userId":"u","properties":{"orderId":"7","total":1,"x":1}}`, `unplanned property /properties/x`},
				{`{"type":"track","event":"Order Completed","properties":{"orderId":"7","total":1}}`, `missing property /userId`},
				{`{"type":"track","event":"order_completed","userId":"u"}`, `unplanned event /event`},
				{`{"type":"identify","userId":"u","traits":{"email":"x"}}`, `invalid value /traits/email`},
				{`{"type":"group","userId":"u","traits":{}}`, ``},
				{`{"type":"page","name":"x"}`, ``},
			} {
				var got []string
				for _, v := range p.Judge([]byte(c.call)) {
					got = append(got, string(v.Kind)+" "+v.Pointer)
				}
				if strings.Join(got, ", ") != c.want {
					t.Errorf("%s\ngot  %v\nwant %s", c.call, got, c.want)
				}
			}
			if s := p.Find("track", "Order Completed").Schema; len(s.Properties) != 2 || !s.Properties[0].Required || s.Line == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestNameOfExport checks that the name is read from each object that can contain the rules.
func TestNameOfExport(t *testing.T) {
	const object = `{"name":"shop","rules":[]}`
	for _, text := range []string{object, `{"data":` + object + `}`, `{"trackingPlan":` + object + `}`, `{"data":{"trackingPlan":` + object + `}}`} {
		p, err := plan.Parse("plan.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if p.Name() != "shop" {
			t.Errorf("%s: the name is %q", text, p.Name())
		}
	}
}

// kindsAndPointers returns the kinds and pointers of a call's violations.
func kindsAndPointers(p *plan.Plan, call string) string {
	var got []string
	for _, v := range p.Judge([]byte(call)) {
		got = append(got, string(v.Kind)+" "+v.Pointer)
	}
	return strings.Join(got, ", ")
}

func TestRudderStackPlan(t *testing.T) {
	p, err := plan.Load("testdata/rudderstack.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ call, want string }{
		{`{"type":"track","event":"Order Completed","properties":{"orderId":"7"}}`, ``},
		{`{"type":"track","event":"Order Completed","properties":{"orderId":7}}`, `wrong type /properties/orderId`},
		{`{"type":"track","event":"Order Shipped"}`, `unplanned event /event`},
		{`{"type":"identify","traits":{"email":"a@example.com"}}`, ``},
		{`{"type":"identify","traits":{}}`, `missing property /traits/email`},
		{`{"type":"group","traits":{"seats":"many"}}`, `wrong type /traits/seats`},
		{`{"type":"page","name":"Docs","properties":{"path":1}}`, `wrong type /properties/path`},
		{`{"type":"page","properties":{"path":"/"}}`, ``},
		{`{"type":"screen","name":"Home","properties":{"view":1}}`, `wrong type /properties/view`},
	} {
		if got := kindsAndPointers(p, c.call); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.call, got, c.want)
		}
	}
	if s := p.Find("identify", "").Schema; len(s.Properties) != 1 || s.Properties[0].Name != "email" {
		t.Errorf("the traits of identify are %+v", s.Properties)
	}
}

func TestTypewriterPlan(t *testing.T) {
	p, err := plan.Load("testdata/typewriter.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ call, want string }{
		{`{"type":"track","event":"Order #1 Completed","properties":{"order id":"7","total":null}}`, ``},
		{`{"type":"track","event":"Order #1 Completed","properties":{"order id":7,"name":1}}`, `wrong type /properties/name, wrong type /properties/order id`},
		{`{"type":"track","event":"Order #1 Completed"}`, `missing property /properties/order id`},
		{`{"type":"track","event":"Order 1 Completed"}`, `unplanned event /event`},
		{`{"type":"track","event":"Cart Viewed","properties":{"size":"x"}}`, `wrong type /properties/size`},
		{`{"type":"track","event":"Cart Viewed"}`, ``},
	} {
		if got := kindsAndPointers(p, c.call); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.call, got, c.want)
		}
	}
	if s := p.Find("track", "Order #1 Completed").Schema; len(s.Properties) != 3 || !s.Properties[1].Required {
		t.Errorf("the properties are %+v", s.Properties)
	}
}

func TestRuleDescribesPropertiesOrCall(t *testing.T) {
	for _, c := range []struct{ name, rule, call, want string }{
		{"property", `"type":"TRACK","jsonSchema":{"properties":{"total":{"type":"number"}}}`, `{"type":"track","event":"A","properties":{"total":"1"}}`, `wrong type /properties/total`},
		{"property named like a field", `"type":"TRACK","jsonSchema":{"properties":{"name":{"type":"string"},"total":{}}}`, `{"type":"track","event":"A","properties":{"name":1}}`, `wrong type /properties/name`},
		{"trait", `"type":"IDENTIFY","jsonSchema":{"properties":{"email":{"type":"string"}}}`, `{"type":"identify","traits":{"email":1}}`, `wrong type /traits/email`},
		{"field", `"type":"TRACK","jsonSchema":{"properties":{"userId":{"type":"string"}}}`, `{"type":"track","event":"A","userId":1}`, `wrong type /userId`},
		{"unknown field next to properties", `"type":"TRACK","jsonSchema":{"properties":{"properties":{},"tenant":{"type":"string"}}}`, `{"type":"track","event":"A","tenant":1}`, `wrong type /tenant`},
		{"marked, property named properties", `"type":"TRACK","jsonSchema":{"eventMetadata":{},"properties":{"properties":{"type":"string"}},"required":["properties"]}`, `{"type":"track","event":"A","properties":{}}`, `missing property /properties/properties`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Parse("p.json", []byte(`{"rules":[{"key":"A",`+c.rule+`}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := kindsAndPointers(p, c.call); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	const (
		properties = `p.json:1: track "A": constrains no field of a call, so it accepts every call; describe the properties under properties.properties`
		traits     = `p.json:1: identify: constrains no field of a call, so it accepts every call; describe the traits under properties.traits`
	)
	for _, c := range []struct{ name, text, want string }{
		{"empty", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{}}]}`, properties},
		{"object", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"type":"object","description":"x","properties":{},"required":[]}}]}`, properties},
		{"empty fields", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"properties":{"properties":{},"traits":{},"context":{}}}}]}`, properties},
		{"unknown field", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"properties":{"properties":{},"total":{"type":"number"}}}}]}`, properties},
		{"field of other calls", `{"rules":[{"type":"IDENTIFY","jsonSchema":{"properties":{"properties":{"type":"object"}}}}]}`, traits},
		{"event", `{"rules":{"events":[{"name":"A","rules":{"type":"object"}}]}}`, properties},
		{"schema", `{"track":{"A":{"schema":{"propertes":{"a":{"type":"string"}}}}}}`, `p.json:1: track "A": constrains no field of a call, so it accepts every call; describe the properties under properties`},
		{"properties", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"properties":{"properties":{"type":"object"}}}}]}`, ``},
		{"nested", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"properties":{"properties":{"properties":{"a":{"items":{"enum":[1]}}}}}}}]}`, ``},
		{"field", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"properties":{"userId":{"type":"string"}}}}]}`, ``},
		{"required", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"required":["userId"]}}]}`, ``},
		{"no other fields", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"additionalProperties":false}}]}`, ``},
		{"condition", `{"rules":[{"type":"TRACK","key":"A","jsonSchema":{"anyOf":[{"required":["userId"]}]}}]}`, ``},
		{"entry without a schema", `{"track":{"A":{}},"page":{"":{}}}`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Parse("p.json", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Warnings().Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Problems repeat little of their input.
func TestLongProblems(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, text := range []string{
		long + ": 1", "a: *" + long, "a: !" + long + " b", "? [a]\n: b\n" + long, "{" + long + ": 1, " + long + ": 2}",
		"track:\n  " + long + ":\n    properties:\n      a: {" + long + ": 1}",
		"track:\n  A:\n    properties:\n      a: {$ref: '" + long + "'}", "track:\n  A:\n    properties:\n      a: {type: " + long + "}",
		`{"rules":[{"type":"` + long + `"}]}`,
	} {
		_, err := plan.Parse("p.yaml", []byte(text))
		var problems plan.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%.60q: %v", text, err)
		}
		for _, p := range problems {
			if n := len(p.Error()); n > 1000 {
				t.Errorf("%.60q: the problem has %d bytes", text, n)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	if _, err := plan.Load(filepath.Join(t.TempDir(), "none.yaml")); !os.IsNotExist(unwrapped(err)) {
		t.Errorf("got %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, plan.MaxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/zero"); err == nil { // a file without end
		if _, err := plan.Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "is larger than 8 MiB") {
			t.Error(err)
		}
	}
	if _, err := plan.Load(large); err == nil || !strings.Contains(err.Error(), "is larger than 8 MiB") {
		t.Errorf("got %v", err)
	}
}

func unwrapped(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}
