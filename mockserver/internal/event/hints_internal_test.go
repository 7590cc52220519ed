package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestEveryCodeHasHint(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../tracking/codes.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		constant, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		assert.NotEmpty(t, hints[tracking.Code(value)], "%s has no hint", constant.Names[0])
		codes++
		return false
	})
	assert.Len(t, hints, codes)
}
