package cli

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// TestSendExamples checks that the example of each type has the flags that the type requires.
func TestSendExamples(t *testing.T) {
	for i := range fields.CallTypes {
		typ := &fields.CallTypes[i]
		cmd := newSendType(typ)
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(typ.Example, -1) {
			require.NoError(t, cmd.Flags().Set(flag[1], "x"), typ.Name)
		}
		assert.NoError(t, requireFields(cmd, typ), typ.Name)
		for _, f := range typ.Own {
			assert.NotEmpty(t, cmd.Flag(flagOf(f)).Usage, fields.Names[f])
		}
	}
}
