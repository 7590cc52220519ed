package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
)

//go:embed templates assets
var files embed.FS

// contentPolicy allows only files and forms of this server. It forbids inline scripts,
// inline styles and frames.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types inspector"

// SecureHeaders sets the security headers of a page.
func SecureHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// assetFiles contains the static files. They refer to each other by relative URLs.
type assetFiles struct {
	version string // hash of all files, part of their URLs
	byName  map[string]asset
}

type asset struct {
	data        []byte
	contentType string
}

var assets = sync.OnceValue(func() assetFiles {
	all := assetFiles{byName: map[string]asset{}}
	sum := sha256.New()
	entries, _ := fs.ReadDir(files, "assets") // reading an embedded directory cannot fail
	for _, e := range entries {
		data, _ := files.ReadFile("assets/" + e.Name())
		fmt.Fprintf(sum, "%s %d %s", e.Name(), len(data), data)
		all.byName[e.Name()] = asset{data, assetTypes[path.Ext(e.Name())]}
	}
	all.version = hex.EncodeToString(sum.Sum(nil)[:8])
	return all
})

// assetURL returns the URL of a static file.
func assetURL(name string) string { return "/assets/" + assets().version + "/" + name }

// assetTypes avoids mime.TypeByExtension, which depends on the machine.
var assetTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// ServeAsset serves a static file. Browsers may retain it for a year, unless the page is from
// another version of the collector, for example during an upgrade.
func ServeAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets().byName[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	SecureHeaders(h)
	if r.PathValue("version") == assets().version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Content-Type", a.contentType)
	access.WriteBody(w, r, http.StatusOK, a.data)
}

// ServeIcon redirects to the icon. Browsers request /favicon.ico for responses that are not pages.
func ServeIcon(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, assetURL("icon.svg"), http.StatusFound)
}

// pages contains one template per page, combined with the shared layout.
var pages = sync.OnceValue(func() map[string]*template.Template {
	const dir = "templates/"
	shared := template.Must(template.New("").Funcs(pageFuncs).ParseFS(files, dir+"shared/*.html"))
	pages := map[string]*template.Template{}
	matches, _ := fs.Glob(files, dir+"*.html") // cannot fail for a valid pattern
	for _, file := range matches {
		name := strings.TrimSuffix(path.Base(file), ".html")
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(files, file))
	}
	return pages
})

// A Server renders pages.
type Server struct {
	// Guard controls access. If it requires a token, there is a login page.
	Guard *access.Guard
	// Sessions stores logins.
	Sessions access.Sessions
	// Log receives internal errors.
	Log *slog.Logger
}

// Render renders a block of a template.
func Render(template, block string, data any) (string, error) {
	var out strings.Builder
	err := pages()[template].ExecuteTemplate(&out, block, data)
	return out.String(), err
}
