package admin

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// TestEveryRouteIsDocumented compares the routes with openapi.yaml. Tests in module collector
// compare the responses.
func TestEveryRouteIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	path := ""
	for line := range strings.Lines(string(openAPI)) {
		name, isKey := strings.CutSuffix(strings.TrimSpace(line), ":")
		switch {
		case isKey && strings.HasPrefix(line, "  /api/"):
			path = name
		case isKey && strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "     "):
			documented[strings.ToUpper(name)+" "+path] = true
		}
	}
	for _, route := range adminRoutes {
		assert.True(t, documented[route.method+" "+route.path], "%s %s is served but not in openapi.yaml", route.method, route.path)
	}
}

// TestDocumentedCallTypes compares the types of calls in openapi.yaml with those in package fields.
func TestDocumentedCallTypes(t *testing.T) {
	lists := regexp.MustCompile(`enum: \[(.*track.*?)\]`).FindAllStringSubmatch(string(openAPI), -1)
	assert.Len(t, lists, 6)
	for _, list := range lists {
		want := fields.EventTypes
		types := strings.Split(list[1], ", ")
		if slices.Contains(types, "delete") {
			want = fields.StoredTypes
		}
		assert.ElementsMatch(t, want, types)
	}
}
