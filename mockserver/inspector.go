package mockserver

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed inspector/templates inspector/assets
var inspectorFiles embed.FS

// The inspector is the collector's page for people: what came, what became of
// it, and the destinations. Its pages are rendered here; a little JavaScript
// keeps them live. Everything it needs is embedded, and nothing in it runs
// inline, so that its Content-Security-Policy can be strict.
type inspector struct {
	c       *Collector
	routes  *http.ServeMux
	streams chan struct{} // one token for each open stream
	done    chan struct{} // closed by close, once; ends the streams
	once    sync.Once     // closes done
}

// maxStreams is how many pages may be live at once.
const maxStreams = 64

func newInspector(c *Collector) *inspector {
	in := &inspector{
		c: c, routes: http.NewServeMux(),
		streams: make(chan struct{}, maxStreams), done: make(chan struct{}),
	}
	for pattern, page := range map[string]http.HandlerFunc{
		"GET /{$}":                   in.serveCalls,
		"GET /stream":                in.serveStream,
		"GET /calls/{ref}":           in.serveCall,
		"GET /calls/{ref}/body":      in.serveCallBody,
		"GET /signatures":            in.serveDoctor,
		"POST /signatures":           in.serveDoctor,
	} {
		in.routes.Handle(pattern, page)
	}
	in.routes.HandleFunc("GET /assets/{name}", serveAsset)
	return in
}

// close ends the streams. It may be called again.
func (in *inspector) close() { in.once.Do(func() { close(in.done) }) }

// handler returns what serves a request, or nil where it is not for the inspector.
func (in *inspector) handler(r *http.Request) http.Handler {
	if h, pattern := in.routes.Handler(r); pattern != "" {
		return h
	}
	return nil
}

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
	entries, _ := fs.ReadDir(inspectorFiles, "inspector/assets") // embedded: it is there
	for _, e := range entries {
		data, _ := inspectorFiles.ReadFile("inspector/assets/" + e.Name())
		sum := sha256.Sum256(data)
		assets[e.Name()] = asset{data, assetType(e.Name()), `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return assets
})

// assetType does not ask the machine, whose tables differ.
func assetType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

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
	const dir = "inspector/templates/"
	shared := template.Must(template.New("").Funcs(pageFuncs).ParseFS(inspectorFiles, dir+"shared/*.html"))
	pages := map[string]*template.Template{}
	files, _ := fs.Glob(inspectorFiles, dir+"*.html") // the pattern is right
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(inspectorFiles, file))
	}
	return pages
})

// A page is what the layout needs.
type page struct {
	Title  string
	Nav    string // the entry of the navigation that it belongs to
	Notice string // what was just done
	Body   any
}

// render answers with a page.
func (in *inspector) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	in.renderBlock(w, status, name, "layout", p)
}

// renderBlock answers with one block of a page, for a script to put into it.
func (in *inspector) renderBlock(w http.ResponseWriter, status int, name, block string, data any) {
	var out bytes.Buffer
	secureHeaders(w.Header())
	if err := inspectorPages()[name].ExecuteTemplate(&out, block, data); err != nil {
		in.c.log.Error("a page of the inspector cannot be rendered", "page", name, "error", err)
		http.Error(w, "The page cannot be rendered: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a browser that is gone gets no page
}

// isFragment tells whether a script of ours asks, which wants only a part of the page.
func isFragment(r *http.Request) bool { return r.Header.Get("X-Fragment") != "" }
