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

// An Inspector is a collector's page for people: what came, what became of it,
// and the destinations. Its pages are rendered here; a little JavaScript keeps
// them live. Everything it needs is embedded, and nothing in it runs inline, so
// that its Content-Security-Policy can be strict. It is an http.Handler.
type Inspector struct {
	c        *engine.Collector
	pages    *page.Server
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
