package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/documents"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var update = flag.Bool("update", false, "write docs/schema/collector.json")

type object = map[string]any

var (
	schemaFile  = filepath.FromSlash("../../../../docs/schema/collector.json")
	exampleFile = filepath.FromSlash("../cli/example.yaml")
)

// allowed contains the values of settings that are not free text. Settings of a named string type must
// be in it.
var allowed = map[string][]string{
	"log.level":                    {"debug", "info", "warn", "error"},
	"log.format":                   {"text", "json"},
	"alerts.format":                {"json", "slack"},
	"alerts.signature":             {"service", "standard", "both"},
	"telemetry.otlp.protocol":      {"grpc", "http"},
	"sources[].onViolation":        {"report", "quarantine", "reject"},
	"destinations[].type":          {"webhooks", "relay"},
	"destinations[].region":        {"us", "eu"},
	"destinations[].signature":     {"service", "standard", "both"},
	"destinations[].aliasFields":   {"spaced", "camelCase"},
	"destinations[].traceContext":  {"parent", "all", "none"},
	"destinations[].order":         {"none", "user"},
	"destinations[].onFailure":     {"hold", "overtake"},
	"destinations[].types.allow[]": slices.Sorted(slices.Values(fields.StoredTypes)),
	"destinations[].types.deny[]":  slices.Sorted(slices.Values(fields.StoredTypes)),
}

const duration = `([0-9.]+(ns|us|µs|ms|s|m|h))+`

// scalar returns the schema of a single value. A string may refer to a variable or a file.
func scalar(pattern string, literal object) object {
	text := object{"type": "string", "pattern": `^(` + pattern + `)$|\$\{`}
	return object{"anyOf": []any{literal, text, object{"type": "null"}}}
}

// schemaOf returns the JSON Schema of the setting at path, which has type of.
func schemaOf(t *testing.T, path string, of reflect.Type) object {
	if values := allowed[path]; values != nil {
		return object{"anyOf": []any{object{"enum": values}, object{"type": "string", "pattern": `\$\{`}, object{"type": "null"}}}
	}
	switch of {
	case reflect.TypeFor[Size]():
		return scalar(`[0-9.]+ ?([kKmMgGtT][iI]?)?[bB]?`, object{"type": "number", "exclusiveMinimum": 0})
	case reflect.TypeFor[Sync]():
		return scalar(`always|`+duration, object{"const": "always"})
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[webhook.Duration]():
		return object{"type": []any{"string", "null"}, "pattern": `^` + duration + `$|\$\{`}
	case reflect.TypeFor[netip.Prefix](), reflect.TypeFor[JSONObject]():
		return object{"type": []any{"string", "null"}}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return schemaOf(t, path, of.Elem())
	case reflect.Struct:
		properties := object{}
		for name, field := range settings.Fields(reflect.New(of).Elem()) {
			properties[name] = schemaOf(t, strings.TrimPrefix(path+"."+name, "."), field.Type())
		}
		return object{"type": []any{"object", "null"}, "properties": properties, "additionalProperties": false}
	case reflect.Slice:
		return object{"type": []any{"array", "null"}, "items": schemaOf(t, path+"[]", of.Elem())}
	case reflect.Map:
		return object{"type": []any{"object", "null"}, "additionalProperties": schemaOf(t, path+".*", of.Elem())}
	case reflect.String:
		require.Empty(t, of.PkgPath(), "add the values of %s to allowed", path)
		return object{"type": []any{"string", "number", "boolean", "null"}}
	case reflect.Bool:
		return scalar("true|false", object{"type": "boolean"})
	case reflect.Int:
		return scalar("[0-9_]+", object{"type": "integer", "minimum": 1})
	case reflect.Float64:
		return scalar("[0-9_.]+", object{"type": "number", "exclusiveMinimum": 0})
	}
	t.Fatalf("%s has the type %v", path, of)
	return nil
}

// uncommented returns the example with its commented settings.
func uncommented(t *testing.T) string {
	text, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^( *)# ( *(- )?[a-zA-Z]+:.*)`).ReplaceAllString(string(text), "$1$2")
}

// describe adds the comments of the example to the schema.
func describe(t *testing.T, schema object) {
	line := regexp.MustCompile(`^( *)((?:- )?)(\w+):([^#]*)(?:# (.*))?$`)
	type level struct {
		indent int
		schema object
	}
	stack := []level{{-1, schema}}
	var above []string // comments above a section
	var last object    // the setting whose comment may continue on the next line
	for _, text := range strings.Split(uncommented(t), "\n") {
		found := line.FindStringSubmatch(text)
		if comment, ok := strings.CutPrefix(strings.TrimSpace(text), "# "); ok && found == nil {
			if strings.HasPrefix(text, "# ") && !strings.HasPrefix(comment, " ") {
				above = append(above, comment)
			} else if last != nil {
				last["description"] = fmt.Sprint(last["description"], " ", strings.TrimLeft(comment, "# "))
			}
			continue
		}
		if last = nil; found == nil {
			above = nil
			continue
		}
		indent := len(found[1]) + len(found[2])
		for stack[len(stack)-1].indent >= indent {
			stack = stack[:len(stack)-1]
		}
		parent := stack[len(stack)-1].schema
		if items, ok := parent["items"].(object); ok {
			parent = items
		}
		properties, _ := parent["properties"].(object)
		setting, ok := properties[found[3]].(object)
		if !ok {
			continue // a header
		}
		if strings.HasPrefix(found[5], "or") { // the value in the example is the first one
			found[5] = strings.TrimSpace(found[4]) + ", " + found[5]
		}
		if comment := strings.TrimSpace(strings.Join(append(above, found[5]), " ")); comment != "" {
			setting["description"] = comment
			last = setting
		}
		above = nil
		stack = append(stack, level{indent, setting})
	}
}

func compile(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("collector.json", document))
	compiled, err := c.Compile("collector.json")
	require.NoError(t, err)
	return compiled
}

// readSchema reads the schema in the documentation. It must match the settings and their comments.
func readSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema := schemaOf(t, "", reflect.TypeFor[Config]())
	describe(t, schema)
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", "Configuration of the collector"
	text, err := json.MarshalIndent(schema, "", " ")
	require.NoError(t, err)
	text = append(text, '\n')
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, text, 0o600))
	}
	stored, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.Equal(t, string(text), string(stored), "run go test ./internal/config -run Schema -update")
	return compile(t, stored)
}

func decodeYAML(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

func TestSchemaAcceptsDocumentedConfigurations(t *testing.T) {
	schema := readSchema(t)
	example, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	require.NoError(t, schema.Validate(decodeYAML(t, string(example))))
	require.NoError(t, schema.Validate(decodeYAML(t, uncommented(t))))
	blocks, err := documents.All(filepath.FromSlash("../../../.."))
	require.NoError(t, err)
	for _, b := range blocks {
		if b.Language == "yaml" && b.Comment == "" {
			require.NoError(t, schema.Validate(decodeYAML(t, b.Text)), b.String())
		}
	}
}

// TestSchemaRefusesUnknownSettings adds a key to each mapping of the example. The schema and the
// decoder must agree. They refuse all keys except the names of headers.
func TestSchemaRefusesUnknownSettings(t *testing.T) {
	schema, document := readSchema(t), decodeYAML(t, uncommented(t))
	mappings, refused := 0, 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case object:
			mappings++
			v["noSuchKey"] = "x"
			text, err := yaml.Marshal(document)
			require.NoError(t, err)
			_, err = parse("c.yaml", text, testExpander(t.TempDir()), nil)
			unknown := err != nil && strings.Contains(err.Error(), "is not a setting")
			assert.Equal(t, unknown, schema.Validate(document) != nil, "%v", v)
			if unknown {
				refused++
			}
			delete(v, "noSuchKey")
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(document)
	assert.Greater(t, mappings, 20)
	assert.Greater(t, refused, mappings-5)
}

// TestSchemaHasTheAllowedValues checks that the collector accepts the values in the schema, and that
// both refuse other values.
func TestSchemaHasTheAllowedValues(t *testing.T) {
	schema := readSchema(t)
	for path, values := range allowed {
		for _, value := range append(values, "no-such-value") {
			text := `"` + value + `"`
			parts := strings.Split(path, ".")
			for i := len(parts) - 1; i >= 0; i-- {
				name, list := strings.CutSuffix(parts[i], "[]")
				if list {
					text = "[" + text + "]"
				}
				text = fmt.Sprintf("{%s: %s}", name, text)
			}
			// Otherwise these settings are not checked.
			text = strings.Replace(text, "{alerts: {", "{alerts: {webhook: https://example.com, ", 1)
			text = strings.Replace(text, "{region:", "{type: relay, region:", 1)
			field := strings.ReplaceAll(path, "[]", "[0]")
			_, err := parse("c.yaml", []byte(text), testExpander(t.TempDir()), func(string) []netip.Addr { return nil })
			refused := err != nil && strings.Contains(err.Error(), field+` is "`)
			assert.Equal(t, value == "no-such-value", refused, "%s: %v", text, err)
			assert.Equal(t, refused, schema.Validate(decodeYAML(t, text)) != nil, text)
		}
	}
}
