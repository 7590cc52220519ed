package jq_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
)

func TestRecipesOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/webhooks.md")
	require.NoError(t, err)
	var bodies []string
	for _, m := range regexp.MustCompile(`(?m)^ +transform: '(.*)'$`).FindAllStringSubmatch(string(guide), -1) {
		transform, err := jq.Compile(m[1])
		require.NoError(t, err, m[1])
		body, err := transform([]byte(call))
		require.NoError(t, err, m[1])
		bodies = append(bodies, string(body))
	}
	assert.Equal(t, []string{`{"text":"u1 did Order Completed"}`, `{"content":"New order: 9.5"}`}, bodies)
}
