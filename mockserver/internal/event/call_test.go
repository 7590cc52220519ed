package event_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestNameOf(t *testing.T) {
	for typ, want := range map[string]string{
		"track": "Signed Up", "page": "Home", "screen": "Home", "identify": "", "group": "", "alias": "", "trak": "Signed Up",
	} {
		if got := event.NameOf(&tracking.Call{Type: typ, Event: "Signed Up", Name: "Home"}); got != want {
			t.Errorf("the event of a %s call is %q, want %q", typ, got, want)
		}
	}
}

func TestCallHasEveryTextField(t *testing.T) {
	for f, name := range fields.Names {
		if fields.Field(f).IsText() && event.TextOf(new(tracking.Call), fields.Field(f)) == nil {
			t.Errorf("TextOf returns nil for %s", name)
		}
	}
}
