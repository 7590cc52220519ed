package input_test

import (
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

func TestEveryFormatIsChecked(t *testing.T) {
	right := map[string]string{
		"date": "2026-11-22", "date-time": "2026-11-22T18:00:00Z", "duration": "PT1H", "email": "a@b.example",
		"hostname": "a.example", "ipv4": "127.0.0.1", "ipv6": "::1", "iri": "https://ä.example/", "iri-reference": "ä",
		"json-pointer": "/a", "period": "2026-11-22T18:00:00Z/PT1H", "relative-json-pointer": "1/a", "semver": "1.2.3",
		"time": "18:00:00Z", "uri": "https://a.example/", "uri-reference": "a", "uri-template": "/{a}",
		"uuid": "0190b6c3-6c6e-7d2a-8a5b-0123456789ab",
	}
	for _, name := range input.FormatNames {
		check := input.Formats()[name]
		if check == nil {
			t.Errorf("format %s is not checked", name)
			continue
		}
		if quick := input.QuickFormats[name]; quick != nil && !quick([]byte(right[name])) {
			t.Errorf("the quick check of %s does not accept %q", name, right[name])
		}
		if err := check(right[name]); err != nil {
			t.Errorf("format %s refuses %q: %v", name, right[name], err)
		}
		if err := check("\x00{ %zz"); err == nil {
			t.Errorf("format %s accepts an invalid string", name)
		}
		if err := check(1); err != nil {
			t.Errorf("format %s refuses a number: %v", name, err)
		}
	}
}

// FuzzQuickFormats searches for a string that a quick check accepts but the check in Formats rejects.
func FuzzQuickFormats(f *testing.F) {
	for _, text := range []string{
		"2026-11-22", "2026-02-29", "2026-00-01", "2026-11-22T18:00:00Z", "2026-11-22T24:00:00Z", "2026-11-22T18:00:60Z", "2026-11-22T18:00:00.Z",
		"2026-11-22T18:00:00.123456789Z", "2026-11-22t18:00:00z", "2026-11-22T18:00:00,5Z", "2026-11-22T1:00:00Z", "2026-11-22T18:00:00+24:00", "a@b.example", "a@b@c", "a.@b", ".a@b", "a@b.", "a@-b", "a@b-", "a-@b", "a@b_c", "@", "a@",
		"0123456789012345678901234567890123456789012345678901234567890123456789@b", "https://a.example/b?c=d&e", "https://a..b//c", "http://-", "https://a:b",
		"0190b6c3-6c6e-7d2a-8a5b-0123456789ab", "0190b6c3-6c6e-7d2a-8a5b-0123456789aG", "0190b6c3x6c6e-7d2a-8a5b-0123456789ab", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, quick := range input.QuickFormats {
			if !quick([]byte(text)) {
				continue
			}
			if err := input.Formats()[name](text); err != nil {
				t.Errorf("the quick check of %s accepts %q, but the format refuses it: %v", name, text, err)
			}
		}
	})
}
