package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestDocumentHasNoMergeKeys checks openapi.yaml for merge keys, which are not part of OpenAPI's YAML.
func TestDocumentHasNoMergeKeys(t *testing.T) {
	for line := range strings.Lines(string(openAPI)) {
		assert.False(t, strings.HasPrefix(strings.TrimSpace(line), "<<:"), line)
	}
}

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
	for _, route := range slices.Concat(adminRoutes, queryRoutes) {
		assert.True(t, documented[route.method+" "+route.path], "%s %s is served but not in openapi.yaml", route.method, route.path)
	}
}
