package fields_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

func TestCallTypesHaveDistinctPaths(t *testing.T) {
	seen := map[string]bool{}
	for _, typ := range fields.CallTypes {
		for _, path := range []string{typ.Name, typ.Short} {
			if path != "" && seen[path] {
				t.Errorf("two types have the path /v1/%s", path)
			}
			seen[path] = true
		}
	}
}
