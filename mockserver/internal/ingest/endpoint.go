package ingest

// The tracking API: what a request passes from its path to its answer.
//
// # Files
//
// In the order in which a request that brings calls passes them:
//
//  1. endpoint.go: the handler, and what each path leads to
//  2. take.go: the stages of a request that brings calls, one after another
//  3. body.go: the body is read, decompressed and bounded
//  4. parse.go: it is cut into calls, in one pass
//  5. writekey.go: the write keys of the request, and the source of each
//  6. sort.go: each call is checked, completed, and put into the batch of its source
//  7. draft.go: one call is read, and held against the rules of its type
//  8. complete.go, overlay.go: it gets an ID, its times, and the context of its batch
//  9. ratelimit.go: how many calls a second each source may send
//  10. store.go: the batch goes into the journal, and observers are told
//  11. dedup.go: calls that were stored before are left out
//  12. answer.go: 200, or what was refused and why
//  13. refusal.go: what is told of a request that was refused
//
// The other endpoints: pixel.go (a call in the address of an image), project.go (what
// libraries ask for at their start), clientmetrics.go (what they report of themselves)
// and messages.go (the calls that came, for tests).

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/logthrottle"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An appender is the journal as far as taking calls needs it. See Journal.Append.
type appender interface {
	Append(ctx context.Context, b event.Batch) error
}

// An Config is what the tracking API needs. All of it must be set.
type Config struct {
	Journal  appender
	Observer event.Observer
	Dedup    *Dedup
	Log      *slog.Logger
	Limits   tracking.Limits
	Strict   bool // a request with a wrong call is refused as a whole

	Sources      func() *SourceTable          // those that apply
	Integrations func(source string) []string // the names of those that get the calls of a source from the server
	IsHTTPS      func(*http.Request) bool     // whether the sender asked by HTTPS, perhaps of a proxy before us
	Health       http.Handler                 // answers that the process lives
	Ready        http.Handler                 // answers whether calls can be taken
}

// An Handler serves the tracking API: it takes calls, and answers once they are
// stored.
type Handler struct {
	config   Config
	rates    *rates
	Metrics  clientMetrics
	refusing logthrottle.Throttle // what is logged of batches that could not be stored
}

func NewHandler(config Config) *Handler {
	return &Handler{config: config, rates: newRates()}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := FindEndpoint(r.URL.Path)
	if e.forBrowsers() {
		AllowOrigin(w, r)
	}
	asked := r.Method
	if asked == http.MethodHead {
		asked = http.MethodGet
	}
	switch {
	case e.Kind == NoEndpoint:
		h.respond(w, r, refuse(http.StatusNotFound, tracking.CodeNotFound, "there is no %q here; batches go to /v1/batch", h.pathOf(r)))
	case asked == http.MethodOptions:
		w.Header().Set("Allow", e.method()+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	case asked != e.method():
		w.Header().Set("Allow", e.method()+", OPTIONS")
		h.respond(w, r, refuse(http.StatusMethodNotAllowed, tracking.CodeWrongMethod, "%q takes %s, not %s", h.pathOf(r), e.method(), r.Method))
	default:
		h.serveEndpoint(e, w, r)
	}
}

func (h *Handler) serveEndpoint(e endpoint, w http.ResponseWriter, r *http.Request) {
	switch e.Kind {
	case BatchEndpoint:
		h.respond(w, r, h.take(r, ""))
	case CallEndpoint:
		h.respond(w, r, h.take(r, e.arg))
	case pixelEndpoint:
		h.servePixel(w, r, e.arg)
	case projectEndpoint:
		h.serveProject(w, r, e.arg)
	case metricsEndpoint:
		h.respond(w, r, h.countMetrics(r))
	case healthEndpoint:
		h.config.Health.ServeHTTP(w, r)
	case readyEndpoint:
		h.config.Ready.ServeHTTP(w, r)
	}
}

// An endpoint is what a path of the tracking API leads to.
type endpoint struct {
	Kind endpointKind
	arg  string // the type of a call, or the write key of a project
}

type endpointKind uint8

const (
	NoEndpoint endpointKind = iota
	BatchEndpoint
	CallEndpoint
	pixelEndpoint
	projectEndpoint
	metricsEndpoint
	healthEndpoint
	readyEndpoint
)

// endpoints are those without a variable part. The browser's and the mobile
// libraries append a short path to a host that their users often configure
// without the v1, so that the short forms answer without it too. Compatible libraries
// have a path of their own for what a page sends as it closes.
var endpoints = func() map[string]endpoint {
	all := map[string]endpoint{
		"v1/batch": {Kind: BatchEndpoint}, "v1/import": {Kind: BatchEndpoint}, "v1/b": {Kind: BatchEndpoint}, "b": {Kind: BatchEndpoint},
		"beacon/v1/batch": {Kind: BatchEndpoint},
		"v1/m":            {Kind: metricsEndpoint}, "m": {Kind: metricsEndpoint},
		"health": {Kind: healthEndpoint}, "ready": {Kind: readyEndpoint},
	}
	for _, typ := range callTypes {
		call := endpoint{Kind: CallEndpoint, arg: typ}
		all["v1/"+typ], all["v1/"+typ[:1]], all[typ[:1]] = call, call, call
	}
	return all
}()

// callTypes are the types of calls that senders send.
var callTypes = []string{"alias", "group", "identify", "page", "screen", "track"}

// FindEndpoint returns what a path leads to, with or without a slash at its end.
func FindEndpoint(path string) endpoint {
	path = strings.Trim(path, "/")
	if e, ok := endpoints[path]; ok {
		return e
	}
	path = strings.TrimPrefix(path, "v1/")
	if typ, ok := strings.CutPrefix(path, "pixel/"); ok {
		if e := endpoints["v1/"+typ]; e.Kind == CallEndpoint {
			return endpoint{Kind: pixelEndpoint, arg: e.arg}
		}
	}
	if key, ok := strings.CutPrefix(path, "projects/"); ok {
		if key, ok = strings.CutSuffix(key, "/settings"); ok && key != "" && !strings.Contains(key, "/") {
			return endpoint{Kind: projectEndpoint, arg: key}
		}
	}
	return endpoint{}
}

// method is how the endpoint is asked.
func (e endpoint) method() string {
	switch e.Kind {
	case BatchEndpoint, CallEndpoint, metricsEndpoint:
		return http.MethodPost
	}
	return http.MethodGet
}

// forBrowsers reports whether pages of any site may ask.
func (e endpoint) forBrowsers() bool {
	switch e.Kind {
	case healthEndpoint, readyEndpoint:
		return false
	}
	return true
}

// AllowOrigin lets browsers of any site send calls, with any header: libraries add
// their own. Pages may ask with credentials, because some libraries do; the tracking
// API has none to look at.
func AllowOrigin(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	if r.Method == http.MethodOptions {
		h.Add("Vary", "Access-Control-Request-Headers")
		h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		if asked := r.Header.Values("Access-Control-Request-Headers"); len(asked) > 0 {
			h.Set("Access-Control-Allow-Headers", strings.Join(asked, ", "))
		}
		h.Set("Access-Control-Max-Age", "86400")
	}
}

// DefaultLimits returns l with the limits of the service where it has none.
func DefaultLimits(l tracking.Limits) tracking.Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.BodyBytes, 512_000)
	set(&l.CallBytes, 32_768)
	set(&l.BatchCalls, 2_500)
	set(&l.MessageIDChars, 100)
	return l
}
