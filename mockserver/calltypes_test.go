package mockserver_test

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var update = flag.Bool("update", false, "write the lists of types of calls")

// TestClientHasCallTypes checks that the client, its golden file and its guide have the types of
// calls of the collector.
func TestClientHasCallTypes(t *testing.T) {
	client := reflect.ValueOf(analytics.New("key"))
	for _, typ := range fields.Types {
		method := client.MethodByName(strings.ToUpper(typ[:1]) + typ[1:])
		require.True(t, method.IsValid(), "the client has no method for %s calls", typ)
		empty := reflect.New(method.Type().In(0).Elem()).Interface().(analytics.Call)
		var invalid *analytics.FieldError
		require.ErrorAs(t, client.Interface().(*analytics.Client).Enqueue(t.Context(), empty), &invalid)
		assert.Equal(t, typ, invalid.Kind)
		assert.NotEqual(t, "message", invalid.Field, "Enqueue does not handle %s calls", typ)
	}
	text, err := os.ReadFile("../docs/client.md")
	require.NoError(t, err)
	wire, err := os.ReadFile("../testdata/wire/batch.json")
	require.NoError(t, err)
	for _, typ := range fields.Types {
		assert.Contains(t, string(wire), `"type":"`+typ+`"`, "testdata/wire/batch.json contains no %s call", typ)
		assert.Contains(t, string(text), "`client."+strings.ToUpper(typ[:1])+typ[1:]+"`", "docs/client.md does not describe %s calls", typ)
	}
}

// TestListsOfCallTypes checks the lists of types and fields in files that cannot derive them from
// package fields. The flag -update writes them.
func TestListsOfCallTypes(t *testing.T) {
	for file, edit := range map[string]func(text string) string{
		"internal/admin/openapi.yaml": func(text string) string {
			text = regexp.MustCompile(`enum: \[track, [a-z, ]*]`).ReplaceAllStringFunc(text, func(old string) string {
				types := fields.EventTypes
				if strings.Contains(old, "delete") {
					types = fields.StoredTypes
				}
				return "enum: [" + strings.Join(types, ", ") + "]"
			})
			var texts string
			for f, name := range fields.Names {
				if fields.Field(f).IsText() {
					texts += "        " + name + ": { type: string }\n"
				}
			}
			return regexp.MustCompile(`(        [a-zA-Z]+: \{ type: string }\n){7,}`).ReplaceAllLiteralString(text, texts)
		},
		"../testkit/node/index.d.ts": func(text string) string {
			return regexp.MustCompile(`type\?: '.*'`).ReplaceAllLiteralString(text, "type?: '"+strings.Join(fields.Types, "' | '")+"'")
		},
		"../docs/webhooks.md": func(text string) string {
			return regexp.MustCompile(`(?s)\| track \| .*\| delete \| .*?\n`).ReplaceAllLiteralString(text, bodies(t))
		},
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		want := edit(string(text))
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		} else if want != string(text) {
			t.Errorf("%s lists other types or fields of calls: run go test ./mockserver -run ListsOfCallTypes -update", file)
		}
	}
}

// bodies returns the rows of a table with the fields of the body of each type.
func bodies(t *testing.T) (rows string) {
	for _, typ := range fields.StoredTypes {
		call := map[string]any{"type": typ, "timestamp": "2026-01-31T12:00:00.000Z"}
		for f, name := range fields.Names {
			if f := fields.Field(f); f.IsText() && f != fields.AnonymousID {
				call[name] = "x"
			}
		}
		stored, err := json.Marshal(call)
		require.NoError(t, err)
		body, err := webhook.Payload(stored, "")
		require.NoError(t, err)
		var names []string
		for m := range jsonscan.Members(body) {
			names = append(names, string(jsonscan.Unquote(m.Key)))
		}
		rows += "| " + typ + " | " + strings.Join(names, ", ") + " |\n"
	}
	return rows
}
