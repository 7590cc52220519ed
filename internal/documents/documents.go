// Package documents finds the code in the project's documents, so that tests can
// compile and run it: the fenced blocks of Markdown files, and the commands within
// their text and in the package comments of Go files.
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

// A Block is some lines of code in a document.
type Block struct {
	File     string // from the root of the repository, with slashes
	Line     int    // of its first line of code
	Module   string // the directory of the module that it is about; "." is the root
	Language string // "sh" for commands within text
	Comment  string // of the HTML comment right before the block: what its check needs to know
	Text     string
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

// Markdown returns the Markdown files beneath root, the root of the repository.
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

// walk visits every file that is the project's own.
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

// All returns the blocks of all documents beneath root, the root of the
// repository, in the order of the files.
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

// module is the directory of the module that a directory belongs to.
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

// ofMarkdown returns the fenced blocks of a Markdown file, and the commands within
// its text. Code that is marked in another way would go unchecked: it is an error.
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
			return blocks, fmt.Errorf("%d: code is written between two lines of ```, at the beginning of the line", number)
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
		return blocks, fmt.Errorf("%d: the last block or comment has no end", number)
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

// commands reports whether code is commands of this project.
func commands(code string) bool {
	parsed, err := Commands(code)
	return err == nil && !slices.ContainsFunc(parsed, func(c Command) bool {
		return len(c.Args) < 2 || !slices.Contains([]string{"go", "make", "collector"}, c.Args[0])
	})
}
