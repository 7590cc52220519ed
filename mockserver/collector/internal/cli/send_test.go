package cli

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

func TestSendHasEveryCallType(t *testing.T) {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
		typ := fields.TypeNamed(k.name)
		for _, m := range slices.Concat(k.texts, k.objects) {
			assert.Contains(t, typ.Own, fields.ByName[m.name], k.name)
		}
	}
	assert.ElementsMatch(t, fields.Types, names)
}
