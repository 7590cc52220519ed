package ingest

import (
	"encoding/json"
	"net/http"
)

// serviceIntegration is the name of the service in the libraries' settings.
const serviceIntegration = "Segment.io"

// serveProject serves the settings that browser and mobile libraries load at startup. They contain
// the address for calls (the host of this request), retry settings, and the sample rate of the
// libraries' metrics. They also list the collector's destinations, which need no code in the page.
func (h *Handler) serveProject(w http.ResponseWriter, r *http.Request, key string) {
	source, known := h.config.Sources().SourceOf(key)
	if !known {
		h.respond(w, r, unknownKey(key))
		return
	}
	host, protocol, sampleRate := r.Host+"/v1", "http", 0.0
	if h.config.IsHTTPS(r) {
		protocol, sampleRate = "https", 0.1 // libraries send metrics only over HTTPS
	}
	type object = map[string]any
	enabled := object{"__default": object{"enabled": true, "integrations": object{}}}
	service := object{
		"apiKey": key, "apiHost": host, "protocol": protocol, "retryQueue": true, "addBundledMetadata": true,
		"unbundledIntegrations": h.config.Integrations(source), "maybeBundledConfigIds": object{},
	}
	if h.config.HTTPConfig != nil {
		service["httpConfig"] = h.config.HTTPConfig
	}
	header := w.Header()
	header["Content-Type"], header["X-Content-Type-Options"] = contentJSON, noSniff
	header.Set("Cache-Control", "no-store") // the response depends on the Host header
	_ = json.NewEncoder(w).Encode(object{
		"integrations":       object{serviceIntegration: service},
		"plan":               object{"track": enabled, "identify": enabled, "group": enabled},
		"edgeFunction":       object{},
		"middlewareSettings": object{},
		"enabledMiddleware":  object{},
		"metrics":            object{"host": host, "sampleRate": sampleRate},
		"remotePlugins":      []any{},
	})
}
