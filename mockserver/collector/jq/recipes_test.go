package jq_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
)

func TestGuideRecipes(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/webhooks.md")
	require.NoError(t, err)
	input := strings.TrimSuffix(call, "}") + `,"messageId":"m1"}`
	var bodies []string
	for _, m := range regexp.MustCompile(`(?m)^ +transform: '(.*)'$`).FindAllStringSubmatch(string(guide), -1) {
		transform, err := jq.Compile(m[1])
		require.NoError(t, err, m[1])
		body, err := apply(transform, []byte(input))
		require.NoError(t, err, m[1])
		bodies = append(bodies, string(body))
	}
	assert.Equal(t, []string{
		`{"text":"u1 did Order Completed"}`,
		`{"content":"New order: 9.5"}`,
		`{"data":{"id":12345678901234568,"items":[{"sku":"a"},{"sku":"b"}],"total":9.5},"id":"m1","name":"Order Completed","time":"2026-01-02T03:04:05.000Z","user":"u1"}`,
		`{"event":"Order Completed","message_id":"m1","properties":"{\"id\":12345678901234567,\"items\":[{\"sku\":\"a\"},{\"sku\":\"b\"}],\"total\":9.5}","timestamp":"2026-01-02T03:04:05.000Z","user_id":"u1"}`,
	}, bodies)
}
