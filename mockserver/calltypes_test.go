package mockserver_test

import (
	"fmt"
	"reflect"
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
