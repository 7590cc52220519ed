package documents

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  []Command
		wrong string
	}{
		{text: "", want: nil},
		{text: "# a comment\n\n", want: nil},
		{text: "make test  # the tests\nmake lint", want: []Command{{Args: []string{"make", "test"}}, {Args: []string{"make", "lint"}}}},
		{text: `send --event 'Signed Up' --id "it's" ''`, want: []Command{{Args: []string{"send", "--event", "Signed Up", "--id", "it's", ""}}}},
		{text: "A=1 B_C='x y' run -a=b", want: []Command{{Env: []string{"A=1", "B_C=x y"}, Args: []string{"run", "-a=b"}}}},
		{text: "serve --example > collector.yaml", want: []Command{{Args: []string{"serve", "--example"}, Out: "collector.yaml"}}},
		{text: "sort < a > b", want: []Command{{Args: []string{"sort"}, In: "a", Out: "b"}}},
		{text: "psql -c 'a > b; c|d' | sync 'Big'", want: []Command{{Args: []string{"psql", "-c", "a > b; c|d"}}, {Args: []string{"sync", "Big"}}}},
		{text: "echo 'no end", wrong: `the quote '\'' is not closed`},
		{text: "make a && make b", wrong: "the shell syntax '&' is not supported"},
		{text: "echo $HOME", wrong: "the shell syntax '$' is not supported"},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := Commands(c.text)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestMarkdown(t *testing.T) {
	blocks, err := ofMarkdown("`make` lists, `make x` makes `x y`\n\n```sh\nmake\n```\n\n<!-- given: x int -->\n```go\n\tx++\n```\n<!-- a\nb -->\n```text\n```\n")
	require.NoError(t, err)
	assert.Equal(t, []Block{
		{Line: 1, Language: "sh", Text: "make x"},
		{Line: 4, Language: "sh", Text: "make\n"},
		{Line: 9, Language: "go", Comment: "given: x int", Text: "\tx++\n"},
		{Line: 14, Language: "text", Comment: "a\nb"},
	}, blocks)

	for text, wrong := range map[string]string{
		"```sh\nmake\n":       "the last block or comment is not closed",
		"<!-- given\n":        "the last block or comment is not closed",
		"so:\n\n    make\n":   "3: put code between",
		"- so:\n  ```sh\n":    "2: put code between",
		"~~~sh\nmake\n~~~\n":  "1: put code between",
		"so:\n\n\tmake all\n": "3: put code between",
	} {
		_, err := ofMarkdown(text)
		assert.ErrorContains(t, err, wrong, text)
	}
}

func TestGoComment(t *testing.T) {
	blocks, err := ofComment("// Command x does it.\n//\n//\tgo run ./x -a\n//\n// A format:\n//\n//\tbyte 0  a kind\npackage main\n\n// Not\n//\n//\tmake y\nvar y int\n")
	require.NoError(t, err)
	assert.Equal(t, []Block{{Line: 3, Language: "sh", Text: "go run ./x -a\n"}}, blocks)
}
