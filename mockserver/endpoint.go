package mockserver

import (
	"net/http"
	"strings"
)

// An endpoint is what a path of the tracking API leads to.
type endpoint struct {
	kind endpointKind
	arg  string // the type of a call, or the write key of a project
}

type endpointKind uint8

const (
	noEndpoint endpointKind = iota
	batchEndpoint
	callEndpoint
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
		"v1/batch": {kind: batchEndpoint}, "v1/import": {kind: batchEndpoint}, "v1/b": {kind: batchEndpoint}, "b": {kind: batchEndpoint},
		"beacon/v1/batch": {kind: batchEndpoint},
		"v1/m":            {kind: metricsEndpoint}, "m": {kind: metricsEndpoint},
		"health": {kind: healthEndpoint}, "ready": {kind: readyEndpoint},
	}
	for _, typ := range callTypes {
		call := endpoint{kind: callEndpoint, arg: typ}
		all["v1/"+typ], all["v1/"+typ[:1]], all[typ[:1]] = call, call, call
	}
	return all
}()

// callTypes are the types of calls that senders send.
var callTypes = []string{"alias", "group", "identify", "page", "screen", "track"}

// findEndpoint returns what a path leads to, with or without a slash at its end.
func findEndpoint(path string) endpoint {
	path = strings.Trim(path, "/")
	if e, ok := endpoints[path]; ok {
		return e
	}
	path = strings.TrimPrefix(path, "v1/")
	if typ, ok := strings.CutPrefix(path, "pixel/"); ok {
		if e := endpoints["v1/"+typ]; e.kind == callEndpoint {
			return endpoint{kind: pixelEndpoint, arg: e.arg}
		}
	}
	if key, ok := strings.CutPrefix(path, "projects/"); ok {
		if key, ok = strings.CutSuffix(key, "/settings"); ok && key != "" && !strings.Contains(key, "/") {
			return endpoint{kind: projectEndpoint, arg: key}
		}
	}
	return endpoint{}
}

// method is how the endpoint is asked.
func (e endpoint) method() string {
	switch e.kind {
	case batchEndpoint, callEndpoint, metricsEndpoint:
		return http.MethodPost
	}
	return http.MethodGet
}

// forBrowsers tells whether pages of any site may ask.
func (e endpoint) forBrowsers() bool {
	switch e.kind {
	case healthEndpoint, readyEndpoint:
		return false
	}
	return true
}

// serveTracking answers a request to the tracking API.
func (c *Collector) serveTracking(w http.ResponseWriter, r *http.Request) {
	e := findEndpoint(r.URL.Path)
	if e.forBrowsers() {
		allowOrigin(w, r)
	}
	asked := r.Method
	if asked == http.MethodHead {
		asked = http.MethodGet
	}
	switch {
	case e.kind == noEndpoint:
		c.respond(w, r, refuse(http.StatusNotFound, CodeNotFound, "there is no %q here; batches go to /v1/batch", c.pathOf(r)))
	case asked == http.MethodOptions:
		w.Header().Set("Allow", e.method()+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	case asked != e.method():
		w.Header().Set("Allow", e.method()+", OPTIONS")
		c.respond(w, r, refuse(http.StatusMethodNotAllowed, CodeWrongMethod, "%q takes %s, not %s", c.pathOf(r), e.method(), r.Method))
	default:
		c.serveEndpoint(e, w, r)
	}
}

func (c *Collector) serveEndpoint(e endpoint, w http.ResponseWriter, r *http.Request) {
	switch e.kind {
	case batchEndpoint:
		c.respond(w, r, c.ingest(r, ""))
	case callEndpoint:
		c.respond(w, r, c.ingest(r, e.arg))
	case pixelEndpoint:
		c.servePixel(w, r, e.arg)
	case projectEndpoint:
		c.serveProject(w, r, e.arg)
	case metricsEndpoint:
		c.respond(w, r, c.countMetrics(r))
	case healthEndpoint:
		c.serveHealth(w)
	case readyEndpoint:
		c.serveReady(w, r)
	}
}
