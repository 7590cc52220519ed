package analytics_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
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

// TestDocumentedCode checks each code block of the documents according to its language:
//
//	go, diff    The code is compiled. For a diff, the result is compiled. A fragment is compiled in
//	            a function that declares the variables of the comment
//	            <!-- given: NAME TYPE; … --> before the block.
//	sh          The programs, packages, flags and make targets must exist. Another test, in the
//	            collector's module, checks the arguments of the command collector.
//	yaml        The code must be a valid configuration of the collector. Another test, in the
//	            collector's module, checks it.
//	js, python  The code must be part of a file.
//	text        The block is not checked.
//
// If the comment <!-- from FILE --> precedes a block, the block must be part of that file. If the
// comment <!-- unchecked: REASON --> precedes a block, the block is not checked.
func TestDocumentedCode(t *testing.T) {
	needsRepository(t)
	blocks, err := documents.All(".")
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	sources := map[string]string{} // Go source files, keyed by block
	for _, b := range blocks {
		t.Run(b.String(), func(t *testing.T) {
			if reason, ok := strings.CutPrefix(b.Comment, "unchecked: "); ok {
				require.Greater(t, len(strings.Fields(reason)), 2, "the reason is too short")
				return
			}
			if file, ok := strings.CutPrefix(b.Comment, "from "); ok {
				isPartOf(t, b.Text, file)
				return
			}
			switch b.Language {
			case "go", "diff", "js", "python":
				require.Contains(t, []string{"go", "diff"}, b.Language, "add the comment <!-- from FILE -->")
				sources[b.String()] = wholeFile(t, b)
			case "sh":
				commands, err := documents.Commands(b.Text)
				require.NoError(t, err)
				for _, c := range commands {
					exists(t, b, c)
				}
			case "yaml", "text":
			default:
				t.Errorf("unknown language %q", b.Language)
			}
		})
	}
	build(t, sources)
}

// needsRepository skips a test if the other modules are missing. They are missing when only the
// root module was downloaded.
func needsRepository(t *testing.T) {
	if _, err := os.Stat("mockserver/collector/go.mod"); err != nil {
		t.Skip("the other modules of the repository are missing")
	}
}

// isPartOf checks that a file contains code, ignoring indentation.
func isPartOf(t *testing.T, code, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	flat := func(s string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(s, "") }
	assert.Contains(t, flat(string(text)), flat(code), "%s does not contain the code", file)
}

// imported contains the packages that fragments can use without an import.
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

// wholeFile returns a Go file that contains the code of a block. Line directives make compiler errors
// refer to the document.
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
		require.NotEqual(t, b.Comment, given, "unknown comment before the block")
		for declaration := range strings.SplitSeq(given, ";") {
			fmt.Fprintf(&file, "var %s\n", strings.TrimSpace(declaration))
		}
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0); err == nil {
		return file.String() + at + code
	}
	return file.String() + "func _() {\n" + at + code + "}\n"
}

// build compiles the sources as packages of this module, without linking them. It uses an overlay
// instead of writing them to the module.
func build(t *testing.T, sources map[string]string) {
	root, err := os.Getwd()
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	file := filepath.Join(t.TempDir(), "overlay.json")
	args := []string{"list", "-export", "-overlay=" + file}
	for n, block := range slices.Sorted(maps.Keys(sources)) {
		name := filepath.Join(t.TempDir(), "block.go")
		require.NoError(t, os.WriteFile(name, []byte(sources[block]), 0o600))
		dir := fmt.Sprintf("internal/documents/block%d", n)
		overlay.Replace[filepath.Join(root, dir, "block.go")] = name
		args = append(args, "./"+dir)
	}
	content, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// exists checks that the files, packages and targets that a command names exist.
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
	case "collector": // tested in mockserver/collector/internal/cli
	default:
		t.Errorf("unknown program %s", program)
	}
}

// goCommand checks the arguments of a go command: the packages must exist, and the program that it
// runs must have the flags.
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
		require.NotEqual(t, path, name, "the package is not part of this project")
		module, name = "", "."+name
	case "build", "run", "test", "work", "vet":
	default:
		t.Fatalf("unknown command go %s", verb)
	}
	dir := filepath.Join(module, strings.TrimSuffix(name, "/..."))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "%s does not contain a package", dir)
	if verb != "run" || name == "./mockserver/collector" { // the collector's module tests the flags of the collector
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
			assert.Regexp(t, `\bflag\.\w+\((&[\w.]+, )?"`+flag+`", `, string(source), "go run %s has no flag %s", name, arg)
		}
	}
}

// TestDocumentedNames checks that the API names in the documents exist.
func TestDocumentedNames(t *testing.T) {
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
			switch { // names of other libraries are skipped
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
					t.Errorf("%s:%d: %s is not in api.txt: correct the name, or run make api", document, n+1, match[0])
				}
			}
		}
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// A testCommand is a go test command in the Makefile or in CI.
type testCommand struct {
	variables []string // environment variables that are set for it
	patterns  []string // alternatives of -run and -skip
	packages  []string // directories, which may end in /...
}

// statement matches cd DIRECTORY, plain=$(named 'TESTS'), and VARIABLES go test ARGUMENTS.
var statement = regexp.MustCompile(`(?m)^\s*(?:cd (\S+)|plain=\$\(named '([^']*)'\)|(.*)\bgo test (.*))$`)

// testCommands returns the go test commands of a file. It replaces variables by their values.
func testCommands(text string) (commands []testCommand) {
	text = strings.NewReplacer("\\\n", " ", "$$", "$").Replace(text)
	for _, match := range regexp.MustCompile(`(?m)^(\w+) = (\S+)$`).FindAllStringSubmatch(text, -1) {
		text = strings.ReplaceAll(text, "$("+match[1]+")", match[2])
	}
	dir, plain := ".", ""
	for _, match := range statement.FindAllStringSubmatch(text, -1) {
		dir = filepath.Join(dir, match[1])
		plain = cmp.Or(strings.Join(strings.Fields(match[2]), "|"), plain)
		if match[4] == "" {
			continue
		}
		c := testCommand{variables: groups(`(\w+)=`, match[3])}
		arguments := strings.ReplaceAll(match[4], "$plain", plain)
		for _, pattern := range groups(`-(?:run|skip)[ =]['"]?([^'"\s]+)`, arguments) {
			c.patterns = append(c.patterns, strings.Split(pattern, "|")...)
		}
		for _, path := range groups(`(?:^| )(\.[^\s)]*)`, arguments) {
			c.packages = append(c.packages, filepath.Join(dir, path))
		}
		commands = append(commands, c)
	}
	return commands
}

// groups returns the text of the first group in each match of a pattern.
func groups(pattern, text string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// TestDocumentRunPatterns checks the go test commands in the Makefile and in CI. Each alternative of -run
// and -skip must match a test of the command's packages, and these tests must read each environment
// variable that the command sets. A renamed test would no longer run. It also checks that each full name
// in CI is the name of exactly one test: a test with the same name in another package would only be
// skipped.
func TestDocumentRunPatterns(t *testing.T) {
	needsRepository(t)
	var tests []string
	sources := map[string][]byte{} // source code of the tests, by directory
	require.NoError(t, filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		sources[filepath.Dir(name)] = append(sources[filepath.Dir(name)], text...)
		for _, match := range testName.FindAllSubmatch(text, -1) {
			tests = append(tests, string(match[1]))
		}
		return err
	}))
	for _, file := range []string{"Makefile", ".ci/run"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		commands := testCommands(string(text))
		require.NotEmpty(t, commands)
		for _, c := range commands {
			var source []byte
			for dir, text := range sources {
				if slices.ContainsFunc(c.packages, func(p string) bool {
					parent, below := strings.CutSuffix(p, "...")
					return dir == p || below && strings.HasPrefix(dir+"/", strings.TrimPrefix(parent, "./"))
				}) {
					source = append(source, text...)
				}
			}
			names := testName.FindAllSubmatch(source, -1)
			for _, pattern := range c.patterns {
				matches := func(name [][]byte) bool { return regexp.MustCompile(pattern).Match(name[1]) }
				assert.True(t, pattern == "^$" || slices.ContainsFunc(names, matches), "%s: no test of %v matches %s", file, c.packages, pattern)
			}
			for _, name := range c.variables { // go reads the variables GO…
				assert.True(t, strings.HasPrefix(name, "GO") || bytes.Contains(source, []byte(`"`+name+`"`)), "%s: no test of %v reads %s", file, c.packages, name)
			}
		}
		if file != ".ci/run" {
			continue
		}
		for _, name := range groups(`(Test\w+)`, string(text)) {
			if n := len(slices.DeleteFunc(slices.Clone(tests), func(test string) bool { return test != name })); n != 1 {
				t.Errorf("%s: %d tests have the name %s", file, n, name)
			}
		}
	}
}

// TestDocumentedLinks checks that links to files and headings have a target. It does not check URLs.
func TestDocumentedLinks(t *testing.T) {
	needsRepository(t)
	files, err := documents.Markdown(".")
	require.NoError(t, err)
	require.Contains(t, files, "README.md")
	for _, document := range append(files, "llms.txt") {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, match := range link.FindAllSubmatch(text, -1) {
			if target := string(match[1]); !strings.Contains(target, "://") {
				assert.NoError(t, checkLink(document, target), "%s: %s", document, target)
			}
		}
	}
}

// TestDocumentMarkup checks that the pages of the documentation site are valid Vue templates: outside
// code, they contain no expression and only complete HTML elements. A build of the site would fail.
func TestDocumentMarkup(t *testing.T) {
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```$|<!--.*?-->|``.*?``|`[^`]*`")
	tag := regexp.MustCompile(`</?[A-Za-z][^<>]*>?`)
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, pages)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			text = code.ReplaceAll(text, nil)
			assert.False(t, bytes.Contains(text, []byte("{{")), "%s: {{ outside code", page)
			open := 0
			for _, found := range tag.FindAllString(string(text), -1) {
				switch name := strings.Trim(strings.Fields(found)[0], "<>"); name {
				case "img", "source": // elements without an end tag
					assert.True(t, strings.HasSuffix(found, ">"), "%s: %s", page, found)
				case "picture":
					open++
				case "/picture":
					open--
				default:
					t.Errorf("%s: write %s as code, or add the element to this test", page, found)
				}
				assert.Contains(t, []int{0, 1}, open, "%s: <picture> is not closed", page)
			}
			assert.Zero(t, open, "%s: <picture> is not closed", page)
		}
	}
}

// checkLink returns an error if the target of a link in a document does not exist.
func checkLink(document, target string) error {
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
	return fmt.Errorf("%s does not have the heading %s", path, anchor)
}

// anchorOf returns the anchor of a heading on GitHub.
func anchorOf(heading string) string {
	text := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(text, " ", "-")
}

// TestArchitectureNamesFilesThatExist checks that the Go files named in ARCHITECTURE.md exist. The
// names are relative to the directory in the preceding heading.
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
