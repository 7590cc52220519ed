package deploy

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSite builds the documentation site, and checks that links and their anchors lead to a page of
// the site or a file of the repository. It fetches no URL.
func TestSite(t *testing.T) {
	t.Parallel()
	needs(t, "node", "REQUIRE_NODE")
	needs(t, "npm", "REQUIRE_NPM")
	docs, err := filepath.Abs("../docs")
	require.NoError(t, err)
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = docs
	if out, err := install.CombinedOutput(); err != nil {
		require.Empty(t, os.Getenv("REQUIRE_NPM"), "npm install: %v\n%s", err, out)
		t.Skipf("the site generator cannot be installed: npm install: %v", err)
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "npm", "run", "build", "--", "--outDir", dir) // #nosec G204 -- a temporary directory
	build.Dir = docs
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	pages := sitePages(t, dir)
	require.Contains(t, pages, "docs/webhooks.html")
	href := regexp.MustCompile(`<a\s[^>]*?href="([^"]*)"`)
	for name, text := range pages {
		for _, match := range href.FindAllStringSubmatch(text, -1) {
			checkSiteLink(t, dir, pages, name, html.UnescapeString(match[1]))
		}
	}
}

// sitePages returns the HTML of the pages in a directory, keyed by the relative path.
func sitePages(t *testing.T, dir string) map[string]string {
	pages := map[string]string{}
	site := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(site, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		pages[name] = string(text)
		return err
	}))
	return pages
}

// checkSiteLink checks the target of a link on a page.
func checkSiteLink(t *testing.T, dir string, pages map[string]string, page, link string) {
	const base = "/analytics-go/"
	if file, ok := strings.CutPrefix(link, "https://github.com/seed-45eadc4a/analytics-go/blob/main/"); ok {
		_, err := os.Stat(filepath.Join("..", file))
		assert.NoError(t, err, "%s: %s", page, link)
		return
	}
	target, err := (&url.URL{Path: base + page}).Parse(link)
	if !assert.NoError(t, err, page) || target.IsAbs() {
		return
	}
	name := strings.TrimPrefix(target.Path, base)
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	text, ok := pages[name]
	if !ok {
		assert.FileExists(t, filepath.Join(dir, name), "%s: %s", page, link)
	} else if target.Fragment != "" {
		found := strings.Contains(text, ` id="`+html.EscapeString(target.Fragment)+`"`)
		assert.True(t, found, "%s: %s: the page does not have the anchor", page, link)
	}
}
