package inspector

import (
	"context"
	"embed"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
)

//go:embed snippets
var snippetFiles embed.FS

// An Inspector serves the web pages of a collector. It is an http.Handler. All assets are
// embedded and no script or style is inline, which allows a strict Content-Security-Policy.
type Inspector struct {
	c        *engine.Collector
	pages    *page.Server
	endpoint string
	routes   *http.ServeMux
	notFound http.Handler       // the page for wrong URLs
	streams  chan struct{}      // one element per open stream
	life     context.Context    // parent of all streams
	end      context.CancelFunc // cancels life
}

// A Config configures an Inspector.
type Config struct {
	// Guard controls access. If it requires a token, the inspector shows a login page.
	// Required.
	Guard *access.Guard
	// Endpoint is the URL that clients send calls to, such as https://calls.example.com.
	// The pages only display it. Defaults to the address of the page.
	Endpoint string
}

// maxStreams limits the live pages.
const maxStreams = 64

// ServeHTTP implements http.Handler.
func (in *Inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.routes.ServeHTTP(w, r) }

// Wrap returns a handler that serves the pages of the inspector and passes other requests to
// next, the tracking API. If a person opens a URL that neither of them has, it shows an error
// page.
func (in *Inspector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := in.routes.Handler(r)
		switch {
		case pattern != "":
			in.ServeHTTP(w, r)
		case isNavigation(r) && ingest.FindEndpoint(r.URL.Path).Kind == ingest.NoEndpoint:
			in.notFound.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isNavigation reports whether a browser requests a page. Other clients, and the scripts of
// pages, do not name text/html.
func isNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// Close closes all open streams, so that an HTTP server can shut down. It may be called more
// than once.
func (in *Inspector) Close() { in.end() }
