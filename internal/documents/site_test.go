package documents

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSite checks that the links and anchors of the built documentation site lead to a page of the
// site or a file of the repository. The environment variable SITE contains the site's directory.
// make docs builds the site and runs this test. It fetches no URL.
func TestSite(t *testing.T) {
	dir := os.Getenv("SITE")
	if dir == "" {
		t.Skip("SITE is not set: make docs builds the site and checks it")
	}
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
		_, err := os.Stat(filepath.Join("../..", file))
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
