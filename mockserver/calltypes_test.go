package mockserver_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestListsOfCallTypes compares fields.CallTypes with the lists of packages that cannot import it.
func TestListsOfCallTypes(t *testing.T) {
	types := slices.Sorted(slices.Values(fields.StoredTypes))

	err := tracking.Destination{Types: tracking.Filter{Allow: []string{"x"}}}.Validate()
	assert.Regexp(t, "use some of "+strings.Join(types, ", ")+"$", err)

	_, err = webhook.Payload([]byte(`{"type":"x"}`), "")
	require.Error(t, err)
	_, list, _ := strings.Cut(err.Error(), ", not ")
	payloads := strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
	assert.ElementsMatch(t, types, payloads, "webhook.Payload")
	for _, typ := range types {
		_, err := webhook.Payload(fmt.Appendf(nil, `{"type":%q,"userId":"u","timestamp":"2026-01-31T12:00:00.000Z",%q:"x"}`, typ, fields.Names[fields.TypeNamed(typ).Required]), "")
		assert.NoError(t, err, typ)
	}

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
