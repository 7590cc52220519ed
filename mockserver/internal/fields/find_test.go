package fields_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

func TestLastDuplicateKeyWins(t *testing.T) {
	body := []byte(`{"context":{"library":{"name":"first"}},"cont\u0065xt":{"library":{"name":"x"},"library":{"name":"last","version":"2"}}}`)
	context := fields.Find(body, fields.Context)
	if got := fields.Library(context); got != "last 2" {
		t.Errorf("the library is %q, want the last one", got)
	}
	if got := string(fields.Member(context, "none")); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}
