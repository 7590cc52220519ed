package analytics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/documents"
)

const modulePath = "github.com/seed-45eadc4a/analytics-go"

// Every block of code in the documents compiles, runs, or says why it does not:
//
//	go, diff  compiled; a diff is what it leads to. A fragment stands in a function
//	          of its own, after <!-- given: NAME TYPE; … --> what it takes for
//	          granted; or it is part of a file, <!-- from FILE -->, that is tested
//	sh        its programs, packages, flags and targets exist; what the command
//	          collector is given is tested in its own module
//	yaml      is a configuration of the collector: tested in its module
//	js, python part of a file, <!-- from FILE -->, that is tested, as sh and yaml may be
//	text      is no code
func TestDocumentsAreRight(t *testing.T) {
	needsRepository(t)
	blocks, err := documents.All(".")
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	sources := map[string]string{} // of Go files, by the block
	for _, b := range blocks {
		t.Run(b.String(), func(t *testing.T) {
			if reason, ok := strings.CutPrefix(b.Comment, "unchecked: "); ok {
				require.Greater(t, len(strings.Fields(reason)), 2, "give a reason")
				return
			}
			if file, ok := strings.CutPrefix(b.Comment, "from "); ok {
				isPartOf(t, b.Text, file)
				return
			}
			switch b.Language {
			case "go", "diff", "js", "python":
				require.Contains(t, []string{"go", "diff"}, b.Language, "say from which file it is")
				sources[b.String()] = wholeFile(t, b)
			case "sh":
				commands, err := documents.Commands(b.Text)
				require.NoError(t, err)
				for _, c := range commands {
					exists(t, b, c)
				}
			case "yaml", "text":
			default:
				t.Errorf("there is no check for the language %q", b.Language)
			}
		})
	}
	build(t, sources)
}

// needsRepository skips a test where the root module is by itself, as those who
// download it have it.
func needsRepository(t *testing.T) {
	if _, err := os.Stat("mockserver/collector/go.mod"); err != nil {
		t.Skip("the documents are about all modules of the repository, and only the root module is here")
	}
}

// isPartOf checks that code is in a file, be it further to the right.
func isPartOf(t *testing.T, code, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	flat := func(s string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(s, "") }
	assert.Contains(t, flat(string(text)), flat(code), "%s does not have it", file)
}

// imported are the packages that fragments may use without an import.
var imported = map[string]string{
	"analytics":     modulePath,
	"mockserver":    modulePath + "/mockserver",
	"otelanalytics": modulePath + "/otelanalytics",
	"webhook":       modulePath + "/mockserver/webhook",
	"context":       "context",
	"errors":        "errors",
	"expvar":        "expvar",
	"slog":          "log/slog",
	"http":          "net/http",
	"log":           "log",
	"os":            "os",
	"signal":        "os/signal",
	"syscall":       "syscall",
	"time":          "time",
}

// wholeFile makes a Go file of a block, in which positions are the document's.
func wholeFile(t *testing.T, b documents.Block) string {
	code := b.Text
	if b.Language == "diff" {
		code = regexp.MustCompile(`(?m)^-.*\n`).ReplaceAllString(code, "")
		code = regexp.MustCompile(`(?m)^[+ ]`).ReplaceAllString(code, "")
	}
	at := fmt.Sprintf("//line %s:%d\n", b.File, b.Line)
	if strings.HasPrefix(code, "package ") {
		return at + code
	}
	var file strings.Builder
	file.WriteString("package fragment\n")
	given, _ := strings.CutPrefix(b.Comment, "given: ")
	for name, path := range maps.All(imported) {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(given + code) {
			fmt.Fprintf(&file, "import %s %q\n", name, path)
		}
	}
	if b.Comment != "" {
		require.NotEqual(t, b.Comment, given, "the comment before the block is not understood")
		for declaration := range strings.SplitSeq(given, ";") {
			fmt.Fprintf(&file, "var %s\n", strings.TrimSpace(declaration))
		}
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0); err == nil {
		return file.String() + at + code
	}
	return file.String() + "func _() {\n" + at + code + "}\n"
}

// build compiles files as packages of this module, all at once. They are never
// written into it.
func build(t *testing.T, sources map[string]string) {
	root, err := os.Getwd()
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	args := []string{"build", "-overlay=" + filepath.Join(t.TempDir(), "overlay.json")}
	for n, block := range slices.Sorted(maps.Keys(sources)) {
		name := filepath.Join(t.TempDir(), "block.go")
		require.NoError(t, os.WriteFile(name, []byte(sources[block]), 0o600))
		dir := fmt.Sprintf("internal/documents/block%d", n)
		overlay.Replace[filepath.Join(root, dir, "block.go")] = name
		args = append(args, "./"+dir)
	}
	content, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(strings.TrimPrefix(args[1], "-overlay="), content, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// exists checks that what a command names is there.
func exists(t *testing.T, b documents.Block, c documents.Command) {
	switch program, args := c.Args[0], c.Args[1:]; program {
	case "go":
		goCommand(t, b.Module, args[0], args[1:])
	case "make":
		makefile, err := os.ReadFile("Makefile")
		require.NoError(t, err)
		for _, arg := range args {
			target, variable := arg, ""
			if name, _, ok := strings.Cut(arg, "="); ok {
				target, variable = "", name
			}
			assert.Regexp(t, `(?m)^(`+target+`:|`+variable+` \?= )`, string(makefile), "make %s", arg)
		}
	case "collector": // see mockserver/collector/internal/cli
	default:
		t.Errorf("there is no check for the program %s", program)
	}
}

// goCommand checks that the packages a go command names exist, and the flags of the
// program that it runs.
func goCommand(t *testing.T, module, verb string, args []string) {
	if verb == "mod" && slices.Equal(args, []string{"tidy"}) {
		return
	}
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-race" || arg == "-v" || arg == "-tool" })
	if len(args) > 1 && (args[0] == "-run" || args[0] == "-o") {
		args = args[2:]
	}
	require.NotEmpty(t, args)
	name := args[0]
	switch verb {
	case "get", "install":
		path, _, _ := strings.Cut(name, "@")
		name, _ = strings.CutPrefix(path, modulePath)
		require.NotEqual(t, path, name, "it is not of this project")
		module, name = "", "."+name
	case "build", "run", "test", "work", "vet":
	default:
		t.Fatalf("there is no check for go %s", verb)
	}
	dir := filepath.Join(module, strings.TrimSuffix(name, "/..."))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "%s holds no package", dir)
	if verb != "run" || name == "./mockserver/collector" { // whose flags are tested in its own module
		return
	}
	var source []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source = append(source, text...)
	}
	for _, arg := range args[1:] {
		if flag, ok := strings.CutPrefix(arg, "-"); ok {
			assert.Regexp(t, `\bflag\.\w+\((&\w+, )?"`+flag+`", `, string(source), "go run %s has no flag %s", name, arg)
		}
	}
}

// Inline code in the documents names what exists, too.
func TestDocumentsNameWhatExists(t *testing.T) {
	api, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	compat, err := os.ReadFile("compat/v3/api.txt")
	require.NoError(t, err)
	api = append(api, compat...)
	variables := map[string]string{"client": "Client", "Config": "Config", "srv": "(Server|View)"}
	name := regexp.MustCompile(`\b(analytics|mockserver|webhook|client|srv|Config)\.([A-Z]\w*)`)
	files, err := documents.Markdown(".")
	require.NoError(t, err)
	for _, document := range files {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for n, line := range bytes.Split(text, []byte("\n")) {
			switch { // what is replaced has names of other libraries
			case document == "MIGRATING.md" && bytes.HasPrefix(line, []byte("| ")):
				line = line[bytes.LastIndexByte(bytes.TrimRight(line, "| "), '|'):]
			case bytes.HasPrefix(line, []byte("-\t")):
				continue
			}
			for _, match := range name.FindAllSubmatch(line, -1) {
				want := `(func|type|var|const|pkg \S+/` + string(match[1]) + `,) .*\b` + string(match[2]) + `\b`
				if receiver, ok := variables[string(match[1])]; ok {
					want = `(field|method) ` + receiver + `\.` + string(match[2]) + `\b`
				}
				if !regexp.MustCompile(want).Match(api) {
					t.Errorf("%s:%d: there is no %s", document, n+1, match[0])
				}
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// Links in the documents lead to files, and to headings, that are there. Addresses
// elsewhere are not looked at.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	needsRepository(t)
	files, err := documents.Markdown(".")
	require.NoError(t, err)
	require.Contains(t, files, "README.md")
	for _, document := range files {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, match := range link.FindAllSubmatch(text, -1) {
			if target := string(match[1]); !strings.Contains(target, "://") {
				assert.NoError(t, leads(document, target), "%s: %s", document, target)
			}
		}
	}
}

// leads reports whether a link in a document leads somewhere.
func leads(document, target string) error {
	name, anchor, _ := strings.Cut(target, "#")
	path := document
	if name != "" {
		path = filepath.Join(filepath.Dir(document), filepath.FromSlash(name))
	}
	if anchor == "" {
		_, err := os.Stat(path)
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, match := range heading.FindAllSubmatch(text, -1) {
		if anchorOf(string(match[1])) == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading of that name", path)
}

// anchorOf is how a heading is linked to.
func anchorOf(heading string) string {
	text := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(text, " ", "-")
}

// ARCHITECTURE.md names only Go files that exist. Names are relative to the directory in
// the heading above them.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	needsRepository(t)
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	dir := "."
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			dir = "."
			if match := regexp.MustCompile("^[^`]*`([^`]+)/`\n").FindStringSubmatch(line); match != nil {
				dir = match[1]
			}
		}
		for _, match := range regexp.MustCompile("`([\\w./*-]+\\.go)`").FindAllStringSubmatch(line, -1) {
			files, err := filepath.Glob(filepath.Join(dir, match[1]))
			require.NoError(t, err)
			assert.NotEmpty(t, files, "%s, named in the section %s, does not exist", match[1], dir)
		}
	}
}
