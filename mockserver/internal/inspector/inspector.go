package inspector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

//go:embed templates assets snippets
var inspectorFiles embed.FS

// An Inspector is a collector's page for people: what came, what became of it,
// and the destinations. Its pages are rendered here; a little JavaScript keeps
// them live. Everything it needs is embedded, and nothing in it runs inline, so
// that its Content-Security-Policy can be strict. It is an http.Handler.
type Inspector struct {
	c        *engine.Collector
	guard    *access.Guard
	sessions access.Sessions
	endpoint string
	routes   *http.ServeMux
	streams  chan struct{}      // one token for each open stream
	life     context.Context    // of the streams
	end      context.CancelFunc // ends life
}

// A Config says how an inspector is reached.
type Config struct {
	// Guard lets those in who may use the inspector. Where it wants a token, the
	// inspector has a login that asks for it. It must be set.
	Guard *access.Guard
	// Endpoint is where calls are sent to, such as https://calls.example.com, for
	// the page that tells people so. Defaults to where the page itself is.
	Endpoint string
}

// maxStreams is how many pages may be live at once.
const maxStreams = 64

// ServeHTTP serves the inspector's pages.
func (in *Inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.routes.ServeHTTP(w, r) }

// Wrap serves the inspector's pages, and all other requests by next.
func (in *Inspector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := in.routes.Handler(r); pattern != "" {
			in.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Close ends the streams of the pages that are open, so that an HTTP server can
// be shut down. It may be called again.
func (in *Inspector) Close() { in.end() }

// contentPolicy lets a page load its own files, send its own forms, and nothing
// else: no inline script or style, no frame around it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types inspector"

func secureHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// An asset is a file that pages load.
type asset struct {
	data        []byte
	contentType string
	etag        string
}

var inspectorAssets = sync.OnceValue(func() map[string]asset {
	assets := map[string]asset{}
	entries, _ := fs.ReadDir(inspectorFiles, "assets") // embedded: it is there
	for _, e := range entries {
		data, _ := inspectorFiles.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(data)
		assets[e.Name()] = asset{data, assetTypes[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return assets
})

// assetTypes are not asked of the machine, whose tables differ.
var assetTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := inspectorAssets()[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	secureHeaders(h)
	h.Set("Cache-Control", "no-cache") // asked for again each time, answered 304
	h.Set("Content-Type", a.contentType)
	h.Set("ETag", a.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
}

// inspectorPages are the templates, one for each page: the page's own blocks in
// the layout that all share.
var inspectorPages = sync.OnceValue(func() map[string]*template.Template {
	const dir = "templates/"
	shared := template.Must(template.New("").Funcs(pageFuncs).ParseFS(inspectorFiles, dir+"shared/*.html"))
	pages := map[string]*template.Template{}
	files, _ := fs.Glob(inspectorFiles, dir+"*.html") // the pattern is right
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(inspectorFiles, file))
	}
	return pages
})
