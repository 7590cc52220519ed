package ingest

import (
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// An Endpoint describes the endpoint of the tracking API at a path.
type Endpoint struct {
	Kind EndpointKind
	arg  string // type of the call, or write key of the project
}

type EndpointKind uint8

const (
	NoEndpoint EndpointKind = iota
	BatchEndpoint
	CallEndpoint
	pixelEndpoint
	projectEndpoint
	metricsEndpoint
	healthEndpoint
	readyEndpoint
)

// endpoints contains the endpoints without a variable part. Browser and mobile libraries append
// short paths to a host that users often configure without /v1. Therefore short paths also work
// without /v1. Compatible libraries use another path for calls that they send when a page closes.
var endpoints = func() map[string]Endpoint {
	all := map[string]Endpoint{
		"v1/batch": {Kind: BatchEndpoint}, "v1/import": {Kind: BatchEndpoint}, "v1/b": {Kind: BatchEndpoint}, "b": {Kind: BatchEndpoint},
		"beacon/v1/batch": {Kind: BatchEndpoint},
		"v1/m":            {Kind: metricsEndpoint}, "m": {Kind: metricsEndpoint},
		"health": {Kind: healthEndpoint}, "ready": {Kind: readyEndpoint},
	}
	for _, typ := range fields.CallTypes {
		call := Endpoint{Kind: CallEndpoint, arg: typ.Name}
		all["v1/"+typ.Name] = call
		if typ.Short != "" {
			all["v1/"+typ.Short], all[typ.Short] = call, call
		}
	}
	return all
}()

// FindEndpoint returns the endpoint for a path, with or without a trailing slash.
func FindEndpoint(path string) Endpoint {
	path = strings.Trim(path, "/")
	if e, ok := endpoints[path]; ok {
		return e
	}
	path = strings.TrimPrefix(path, "v1/")
	if typ, ok := strings.CutPrefix(path, "pixel/"); ok {
		if e := endpoints["v1/"+typ]; e.Kind == CallEndpoint {
			return Endpoint{Kind: pixelEndpoint, arg: e.arg}
		}
	}
	if key, ok := strings.CutPrefix(path, "projects/"); ok {
		if key, ok = strings.CutSuffix(key, "/settings"); ok && key != "" && !strings.Contains(key, "/") {
			return Endpoint{Kind: projectEndpoint, arg: key}
		}
	}
	return Endpoint{}
}

// method returns the HTTP method of the endpoint.
func (e Endpoint) method() string {
	switch e.Kind {
	case BatchEndpoint, CallEndpoint, metricsEndpoint:
		return http.MethodPost
	}
	return http.MethodGet
}

// forBrowsers reports whether pages of any site may use the endpoint.
func (e Endpoint) forBrowsers() bool {
	switch e.Kind {
	case healthEndpoint, readyEndpoint:
		return false
	}
	return true
}

// AllowOrigin sets the CORS headers that allow browsers to send calls from any site, with
// any header. Credentials are allowed because some libraries send them; the tracking API
// ignores them.
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
		if requested := r.Header.Values("Access-Control-Request-Headers"); len(requested) > 0 {
			h.Set("Access-Control-Allow-Headers", strings.Join(requested, ", "))
		}
		h.Set("Access-Control-Max-Age", "86400")
	}
}
