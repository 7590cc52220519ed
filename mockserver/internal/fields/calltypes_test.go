package fields_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestEventName(t *testing.T) {
	for typ, want := range map[string]string{
		"track": "Signed Up", "page": "Home", "screen": "Home", "identify": "", "group": "", "alias": "", "trak": "Signed Up",
	} {
		if got := fields.EventName(&tracking.Call{Type: typ, Event: "Signed Up", Name: "Home"}); got != want {
			t.Errorf("the event of a %s call is %q, want %q", typ, got, want)
		}
	}
}

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
