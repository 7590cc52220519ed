package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/documents"
)

// TestDocumentedCommands checks the collector's commands and configurations in the documentation and
// in the help.
func TestDocumentedCommands(t *testing.T) {
	blocks, err := documents.All(filepath.FromSlash("../../../.."))
	require.NoError(t, err)
	blocks = append(blocks, helpBlocks(t)...)
	found := 0
	for _, b := range blocks {
		if strings.HasPrefix(b.Comment, "unchecked: ") || strings.HasPrefix(b.Comment, "from ") {
			continue
		}
		switch b.Language {
		case "yaml":
			t.Run(b.String(), func(t *testing.T) { check(t, b.Text) })
		case "sh":
			commands, err := documents.Commands(b.Text)
			require.NoError(t, err)
			for _, c := range commands {
				if args, ok := ofCollector(c.Args); ok {
					found++
					t.Run(strings.Join(args, " "), func(t *testing.T) { parses(t, args) })
				}
			}
		}
	}
	assert.Greater(t, found, 20)
}

// ofCollector returns the collector's arguments in a command line, and false if the command line does
// not run the collector.
func ofCollector(args []string) ([]string, bool) {
	for _, program := range [][]string{{"collector"}, {"go", "run", "./mockserver/collector"}} {
		if len(args) >= len(program) && slices.Equal(args[:len(program)], program) {
			return args[len(program):], true
		}
	}
	return nil, false
}

// parses checks a command, its flags and its arguments without running it.
func parses(t *testing.T, args []string) {
	root := New()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	require.NoError(t, err)
	cmd.InitDefaultHelpFlag()
	require.True(t, cmd != root || slices.Contains(args, "--help"), "the command line does not have a command")
	require.NoError(t, cmd.ParseFlags(rest))
	require.NoError(t, cmd.ValidateRequiredFlags())
	require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()))
}

// check validates a configuration. It creates the variables and files that the configuration refers
// to.
func check(t *testing.T, text string) {
	dir := t.TempDir()
	const value = "a-value-for-this-test-0123456789"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(value), 0o600))
	text = regexp.MustCompile(`\$\{file:[^}]+}`).ReplaceAllString(text, "$${file:secret}")
	for _, variable := range regexp.MustCompile(`\$\{(\w+)}`).FindAllStringSubmatch(text, -1) {
		t.Setenv(variable[1], value)
	}
	path := filepath.Join(dir, "collector.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, errOut, code := run(t, "check", "--config", path)
	assert.Zero(t, code, errOut)
}

// helpBlocks returns the examples in the help of each command.
func helpBlocks(t *testing.T) []documents.Block {
	var blocks []documents.Block
	for _, c := range append(New().Commands(), New()) {
		for _, c := range append(c.Commands(), c) {
			text := c.Example + "\n"
			for line := range strings.Lines(c.Long) {
				if strings.HasPrefix(line, "  ") {
					text += line
				}
			}
			blocks = append(blocks, documents.Block{File: c.CommandPath(), Language: "sh", Text: text})
		}
	}
	require.NotEmpty(t, blocks)
	return blocks
}
