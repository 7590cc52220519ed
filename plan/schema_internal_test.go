package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

var update = flag.Bool("update", false, "write docs/schema/plan.json")

type object = map[string]any

// schemaFile describes plan files in this package's own format.
var schemaFile = filepath.FromSlash("../docs/schema/plan.json")

// valueSchema returns the schema of a keyword whose value contains no schema.
func valueSchema(keyword string) any {
	types := object{"enum": []any{"string", "number", "integer", "boolean", "object", "array", "null"}}
	switch keyword {
	case "type":
		return object{"anyOf": []any{types, object{"type": "array", "items": types, "minItems": 1, "uniqueItems": true}}}
	case "required":
		return object{"description": "The names of the required properties.", "type": "array", "items": object{"type": "string"}, "uniqueItems": true}
	case "description":
		return object{"type": []any{"string", "null"}}
	case "pattern":
		return object{"description": "A regular expression in RE2 syntax.", "type": "string"}
	case "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "title", "format", "contentEncoding", "contentMediaType":
		return object{"type": "string"}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return object{"type": "number"}
	case "multipleOf":
		return object{"type": "number", "exclusiveMinimum": 0}
	case "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		return object{"type": "integer", "minimum": 0}
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		return object{"type": "boolean"}
	case "enum", "examples":
		return object{"type": "array"}
	case "dependentRequired", "$vocabulary":
		return object{"type": "object"}
	}
	return true
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mapping(properties object, of any) object {
	return object{"type": []any{"object", "null"}, "properties": properties, "patternProperties": object{"^x-": true}, "additionalProperties": of}
}

// planSchema returns the JSON Schema of plan files.
func planSchema() object {
	rule := object{"$ref": "#/$defs/rule"}
	named := func(of string) object {
		return object{"type": []any{"object", "null"}, "additionalProperties": object{"$ref": "#/$defs/" + of}}
	}
	known := object{}
	for name, keyword := range keywords {
		switch {
		case slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems"}, name):
			known[name] = object{"type": "array", "items": rule, "minItems": 1}
		case keyword.kind == schemaKeyword:
			known[name] = rule
		case keyword.kind == schemaMapKeyword:
			known[name] = named("rule")
		default:
			known[name] = valueSchema(name)
		}
	}
	known["properties"] = named("property")
	known["dependencies"] = object{"type": "object"} // lists of names, or schemas
	entry := func(member string) object {
		short := maps.Clone(known)
		delete(short, "properties")
		short[member] = named("property")
		return object{
			"if":   object{"required": []any{"schema"}},
			"then": mapping(object{"schema": true, "description": object{"type": []any{"string", "null"}}}, false),
			"else": mapping(short, false),
		}
	}
	sections := object{"version": true, "$defs": named("rule")}
	for _, key := range topLevel {
		switch {
		case sections[key] != nil:
		case input.Member(key) == "properties":
			sections[key] = named("entry")
		case input.Member(key) == "traits":
			sections[key] = object{"$ref": "#/$defs/traits"}
		default:
			sections[key] = object{"type": []any{"string", "null"}}
		}
	}
	schema := mapping(sections, false)
	schema["type"] = "object"
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", "Tracking plan"
	rules := func(known object) object {
		of := mapping(known, false)
		of["type"] = []any{"object", "boolean", "null"}
		return of
	}
	property := maps.Clone(known)
	property["required"] = object{"anyOf": []any{object{"description": "Whether the property is required.", "type": "boolean"}, known["required"]}}
	schema["$defs"] = object{"rule": rules(known), "property": rules(property), "entry": entry("properties"), "traits": entry("traits")}
	return schema
}

func readSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.MarshalIndent(planSchema(), "", " ")
	noError(t, err)
	text = append(text, '\n')
	if *update {
		noError(t, os.WriteFile(schemaFile, text, 0o600))
	}
	stored, err := os.ReadFile(schemaFile)
	noError(t, err)
	if string(text) != string(stored) {
		t.Fatalf("%s is outdated: run go test . -run Schema -update", schemaFile)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(stored))
	noError(t, err)
	c := jsonschema.NewCompiler()
	noError(t, c.AddResource("plan.json", document))
	schema, err := c.Compile("plan.json")
	noError(t, err)
	return schema
}

// planFiles contains plans in this package's own format.
var planFiles = []string{"testdata/shop.yaml", "../examples/plan/plan.yaml"}

func TestSchemaAcceptsPlans(t *testing.T) {
	schema := readSchema(t)
	for _, file := range planFiles {
		text, err := os.ReadFile(filepath.FromSlash(file))
		noError(t, err)
		var document any
		noError(t, yaml.Unmarshal(text, &document))
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchemaAgreesWithParse adds keys to each mapping of a plan. The schema and Parse must agree.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema := readSchema(t)
	number := object{"type": "number"}
	property, entry := object{"items": number}, object{"properties": object{}}
	entry["properties"].(object)["total"] = property
	traits := object{"traits": object{"email": object{"type": "string"}}}
	complete, defs, track := object{"schema": object{"type": "object"}}, object{"money": object{"type": "number"}}, object{"Order": entry}
	document := object{"plan": "shop", "$defs": defs, "track": track, "identify": traits, "page": object{"": complete}}
	skipped := []string{"$ref", "$dynamicRef", "$schema", "$defs"} // valid only with names that exist, or only at the top level
	refused, accepted := 0, 0
	for _, m := range []object{document, defs, number, track, entry, property, traits, complete} {
		for _, key := range append(slices.Sorted(maps.Keys(keywords)), append([]string{"noSuchKey", "x-owner"}, topLevel...)...) {
			for _, value := range []any{"text", 1, true, object{}, []any{"text"}} {
				if _, ok := m[key]; ok || slices.Contains(skipped, key) {
					continue
				}
				m[key] = value
				text, err := json.Marshal(document)
				noError(t, err)
				_, err = Parse("plan.json", text)
				if err == nil {
					accepted++
				} else {
					refused++
				}
				var decoded any
				noError(t, json.Unmarshal(text, &decoded))
				if invalid := schema.Validate(decoded); (err != nil) != (invalid != nil) {
					t.Errorf("%s: %v in %s: Parse: %v, schema: %v", key, value, text, err, invalid)
				}
				delete(m, key)
			}
		}
	}
	if refused < 100 || accepted < 100 {
		t.Errorf("%d plans were refused and %d accepted, want at least 100 of each", refused, accepted)
	}
}
