package mockserver_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// TestClientHasCallTypes checks that the client and the collector have the same types of calls.
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
}

// TestFilesWithCallTypes checks that each file that must name all types of calls does so. After a new
// type was added to fields.CallTypes, it fails for the files to edit.
func TestFilesWithCallTypes(t *testing.T) {
	for file, mention := range map[string]string{ // TYPE stands for the name of a type, and NAME for that of its method
		"../docs/client.md":              "`client\\.NAME`",
		"../docs/webhooks.md":            `(?m)^\| TYPE \|`,
		"../testkit/node/index.d.ts":     `type\?: .*'TYPE'`,
		"collector/internal/cli/send.go": `name: "TYPE"`,
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, typ := range fields.Types {
			pattern := strings.NewReplacer("TYPE", typ, "NAME", strings.ToUpper(typ[:1])+typ[1:]).Replace(mention)
			assert.True(t, regexp.MustCompile(pattern).Match(text), "%s does not name the type %s: no match for %s", file, typ, pattern)
		}
	}
	const api = "internal/admin/openapi.yaml"
	text, err := os.ReadFile(api)
	require.NoError(t, err)
	lists := 0
	for _, enum := range regexp.MustCompile(`enum: \[(track|identify), ([^]]*)]`).FindAllStringSubmatch(string(text), -1) {
		want := fields.EventTypes
		if strings.Contains(enum[0], "delete") {
			want = fields.StoredTypes
		}
		assert.ElementsMatch(t, want, append(strings.Split(enum[2], ", "), enum[1]), "%s: %s", api, enum[0])
		lists++
	}
	assert.Positive(t, lists, api)
}
