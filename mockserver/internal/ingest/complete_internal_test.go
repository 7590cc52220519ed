package ingest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

func TestClockCorrection(t *testing.T) {
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		parsed, err := fields.ParseTime(text)
		require.NoError(t, err)
		return parsed
	}
	const received = "2026-01-31T12:00:00Z"
	for _, test := range []struct{ name, sent, original, want string }{
		{"a correct clock", "2026-01-31T12:00:00Z", "2026-01-31T11:00:00Z", "2026-01-31T11:00:00Z"},
		{"a clock one hour fast", "2026-01-31T13:00:00Z", "2026-01-31T12:30:00Z", "2026-01-31T11:30:00Z"},
		{"years slow", "1970-01-01T00:10:00Z", "1970-01-01T00:09:30Z", "2026-01-31T11:59:30Z"},
		{"no sentAt", "", "2020-05-05T05:05:05Z", "2020-05-05T05:05:05Z"},
		{"no timestamp", "2026-01-31T13:00:00Z", "", "2026-01-31T12:00:00Z"},
		{"neither", "", "", "2026-01-31T12:00:00Z"},
		{"thousands of years ahead", "2026-01-31T12:00:00.25Z", "9999-12-30T00:00:00Z", "9999-12-29T23:59:59.75Z"},
		{"after year 9999", "0001-01-02T00:00:00Z", "9999-12-31T00:00:00Z", received},
		{"before year 0", "9999-12-31T00:00:00Z", "0001-01-02T00:00:00Z", received},
	} {
		assert.Equal(t, at(test.want), correctClock(at(received), at(test.sent), at(test.original)), test.name)
	}
}
