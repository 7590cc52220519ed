package inspector

import (
	"context"
	"embed"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
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
// next.
func (in *Inspector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := in.routes.Handler(r); pattern != "" {
			in.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Close closes all open streams, so that an HTTP server can shut down. It may be called more
// than once.
func (in *Inspector) Close() { in.end() }
