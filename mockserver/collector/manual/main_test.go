package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
)

func TestEveryCommandHasAPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	t.Setenv("HOME", t.TempDir()) // HOME may be unset
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, write(first))
	require.NoError(t, write(second))
	files := []string{"collector.yaml", "completions/collector.bash", "completions/collector.zsh", "completions/collector.fish"}
	var add func(c *cobra.Command, name string)
	add = func(c *cobra.Command, name string) {
		files = append(files, "man/"+name+".1")
		for _, c := range c.Commands() {
			if c.IsAvailableCommand() {
				add(c, name+"-"+c.Name())
			}
		}
	}
	add(cli.New(), "collector")
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(first, name))
		require.NoError(t, err)
		again, err := os.ReadFile(filepath.Join(second, name))
		require.NoError(t, err)
		assert.Equal(t, string(text), string(again))
		assert.NotEmpty(t, text)
		assert.NotContains(t, string(text), home+"/.cache", "%s is for other machines too", name)
	}
	example, err := os.ReadFile(filepath.Join(first, "collector.yaml"))
	require.NoError(t, err)
	assert.Contains(t, string(example), "\ndata: /var/lib/collector\n")
	pages, err := filepath.Glob(filepath.Join(first, "man", "*"))
	require.NoError(t, err)
	assert.Len(t, pages, len(files)-4)
}
