package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

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

// An asset is a static file.
type asset struct {
	data        []byte
	contentType string
	etag        string
}

var assets = sync.OnceValue(func() map[string]asset {
	assets := map[string]asset{}
	entries, _ := fs.ReadDir(files, "assets") // reading an embedded directory cannot fail
	for _, e := range entries {
		data, _ := files.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(data)
		assets[e.Name()] = asset{data, assetTypes[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return assets
})

// assetTypes avoids mime.TypeByExtension, which depends on the machine.
var assetTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// ServeAsset serves a static file.
func ServeAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets()[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	SecureHeaders(h)
	h.Set("Cache-Control", "no-cache") // browsers revalidate the file each time
	h.Set("Content-Type", a.contentType)
	h.Set("ETag", a.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
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
