// Command manual writes files for packages of the collector: manual pages, shell completions
// and the example configuration.
//
//	manual DIRECTORY
//
// It creates man/*.1, completions/collector.bash, .zsh and .fish, and collector.yaml in
// DIRECTORY. The output is reproducible: the date is SOURCE_DATE_EPOCH, or today.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: manual DIRECTORY")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(dir string) error {
	pages, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{pages, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // everybody may read it
			return err
		}
	}
	root := cli.New()
	root.DisableAutoGenTag = true
	atHome(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "collector", Manual: "Collector"}, pages); err != nil {
		return err
	}
	for name, generate := range map[string]func(string) error{
		"collector.bash": func(name string) error { return root.GenBashCompletionFileV2(name, true) },
		"collector.zsh":  root.GenZshCompletionFile,
		"collector.fish": func(name string) error { return root.GenFishCompletionFile(name, true) },
	} {
		if err := generate(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return writeExample(filepath.Join(dir, "collector.yaml"))
}

// atHome replaces the path of the home directory in default values with ~.
func atHome(cmd *cobra.Command) {
	home, err := os.UserHomeDir()
	for _, c := range cmd.Commands() {
		if data := c.Flags().Lookup("data"); err == nil && data != nil {
			data.DefValue = strings.Replace(data.DefValue, home, "~", 1)
		}
	}
}

// writeExample writes the example configuration with the data directory of packages.
func writeExample(name string) error {
	var example, problem bytes.Buffer
	if code := cli.Main(context.Background(), []string{"serve", "--example"}, nil, &example, &problem); code != 0 {
		return fmt.Errorf("the example: %s", problem.String())
	}
	before, after, found := strings.Cut(example.String(), "\ndata: data\n")
	if !found {
		return errors.New("the example has no line for data")
	}
	text := before + "\ndata: /var/lib/collector\n" + after
	return os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // everybody may read it
}
