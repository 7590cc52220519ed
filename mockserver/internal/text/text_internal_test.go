package text

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestContainsFoldIsLinear(t *testing.T) {
	// The text contains only the other case of the first letter of a part, and never the whole
	// part. Searching it 100 times takes milliseconds; with a quadratic algorithm it takes minutes.
	text := bytes.Repeat([]byte("A"), 1<<20)
	for range 100 {
		require.False(t, ContainsFold(text, []byte("ab")))
	}
	assert.True(t, ContainsFold([]byte("xxaAaB"), []byte("aab")))
	assert.True(t, ContainsFold([]byte("ab"), []byte("AB")))
	assert.False(t, ContainsFold([]byte("a"), []byte("ab")))
}

func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "less than a second", 999 * time.Millisecond: "less than a second", time.Second: "1 second", 59 * time.Second: "59 seconds",
		time.Minute: "1 minute", 119 * time.Second: "1 minute", 59 * time.Minute: "59 minutes", time.Hour: "1 hour", 23 * time.Hour: "23 hours",
		day: "1 day", 3 * day: "3 days", 20 * day: "20 days", 21 * day: "3 weeks", 59 * day: "8 weeks", 60 * day: "2 months", 364 * day: "12 months",
		729 * day: "24 months", 730 * day: "2 years", 100 * 365 * day: "100 years",
	} {
		assert.Equal(t, want, Span(d), d.String())
	}
}
