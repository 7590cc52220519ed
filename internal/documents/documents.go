// Package documents finds code in the project's documents, for tests that compile and run it:
// fenced blocks in Markdown files, commands in their text, and commands in package comments.
package documents

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Block is a block of code in a document.
type Block struct {
	File     string // path relative to the root of the repository, with slashes
	Line     int    // the number of the first line of code
	Module   string // the directory of the document's module; "." for the root module
	Language string // the language of the fence; "sh" for commands in text
	Comment  string // the HTML comment before the block, which controls how tests check it
	Text     string
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

// Markdown returns the paths of the Markdown files below root, which must be the root of the
// repository.
func Markdown(root string) ([]string, error) {
	var files []string
	err := walk(root, func(name string) error {
		if filepath.Ext(name) == ".md" {
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

// walk calls visit for each file of the project.
func walk(root string, visit func(name string) error) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return visit(name)
		}
		if base := entry.Name(); base == "node_modules" || base == "testdata" || name != root && strings.HasPrefix(base, ".") {
			return filepath.SkipDir
		}
		return nil
	})
}

// All returns the code blocks of all documents below root, which must be the root of the
// repository. The blocks are in the order of the files.
func All(root string) ([]Block, error) {
	var blocks []Block
	err := walk(root, func(name string) error {
		var read func(string) ([]Block, error)
		switch filepath.Ext(name) {
		case ".md":
			read = ofMarkdown
		case ".go":
			read = ofComment
		default:
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		found, err := read(string(text))
		for _, b := range found {
			b.File = filepath.ToSlash(relative)
			b.Module = module(root, path.Dir(b.File))
			blocks = append(blocks, b)
		}
		if err != nil {
			return fmt.Errorf("%s:%w", relative, err)
		}
		return nil
	})
	return blocks, err
}

// module returns the directory of the Go module that contains dir.
func module(root, dir string) string {
	for dir != "." {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir), "go.mod")); err == nil {
			return dir
		}
		dir = path.Dir(dir)
	}
	return dir
}

var inline = regexp.MustCompile("`([^`]+)`")

// ofMarkdown returns the fenced blocks of a Markdown file and the commands in its text. It returns an
// error for code with other markup, because tests would not check that code.
func ofMarkdown(text string) ([]Block, error) {
	var blocks []Block
	var comment []string
	var fenced, commented bool
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && fenced:
			fenced = false
		case fence:
			fenced = true
			blocks = append(blocks, Block{Line: number + 1, Language: language, Comment: strings.Join(comment, "\n")})
			comment = nil
		case fenced:
			blocks[len(blocks)-1].Text += line + "\n"
		case commented || strings.HasPrefix(line, "<!--"):
			comment = append(comment, strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(line, "<!--"), "-->")))
			commented = !strings.HasSuffix(line, "-->")
		case strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") || strings.Contains(line, "```") || strings.HasPrefix(line, "~~~"):
			return blocks, fmt.Errorf("%d: put code between two unindented lines of ```", number)
		default:
			comment = nil
			for _, span := range inline.FindAllStringSubmatch(line, -1) {
				if commands(span[1]) {
					blocks = append(blocks, Block{Line: number, Language: "sh", Text: span[1]})
				}
			}
		}
	}
	if fenced || commented {
		return blocks, fmt.Errorf("%d: the last block or comment is not closed", number)
	}
	return blocks, nil
}

// ofComment returns the commands in the package comment of a Go file.
func ofComment(text string) ([]Block, error) {
	var blocks []Block
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.HasPrefix(line, "package ") {
			break
		}
		if code, ok := strings.CutPrefix(line, "//\t"); ok && commands(code) {
			blocks = append(blocks, Block{Line: number, Language: "sh", Text: code})
		}
	}
	return blocks, nil
}

// commands reports whether code consists of this project's commands.
func commands(code string) bool {
	parsed, err := Commands(code)
	return err == nil && !slices.ContainsFunc(parsed, func(c Command) bool {
		return len(c.Args) < 2 || !slices.Contains([]string{"go", "make", "collector"}, c.Args[0])
	})
}
