package formats_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/formats"
)

func TestEveryFormatIsChecked(t *testing.T) {
	right := map[string]string{
		"date": "2026-11-22", "date-time": "2026-11-22T18:00:00Z", "duration": "PT1H", "email": "a@b.example",
		"hostname": "a.example", "ipv4": "127.0.0.1", "ipv6": "::1", "iri": "https://ä.example/", "iri-reference": "ä",
		"json-pointer": "/a", "period": "2026-11-22T18:00:00Z/PT1H", "relative-json-pointer": "1/a", "semver": "1.2.3",
		"time": "18:00:00Z", "uri": "https://a.example/", "uri-reference": "a", "uri-template": "/{a}",
		"uuid": "0190b6c3-6c6e-7d2a-8a5b-0123456789ab",
	}
	for _, name := range formats.Names {
		check := formats.All()[name]
		if check == nil {
			t.Errorf("format %s is not checked", name)
			continue
		}
		if err := check(right[name]); err != nil {
			t.Errorf("format %s refuses %q: %v", name, right[name], err)
		}
		if err := check("\x00{ %zz"); err == nil {
			t.Errorf("format %s takes anything", name)
		}
		if err := check(1); err != nil {
			t.Errorf("format %s refuses a number: %v", name, err)
		}
	}
}
