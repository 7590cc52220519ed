package ingest

import (
	"encoding/json"
	"net/http"
)

// projectSettings is what the browser's and the mobile libraries ask for when
// they start: where to send, and which destinations get calls from the server
// and so need no code in the page.
type projectSettings struct {
	Integrations      map[string]senderSettings `json:"integrations"`
	Plan              map[string]any            `json:"plan"`
	EdgeFunction      struct{}                  `json:"edgeFunction"`
	Middleware        struct{}                  `json:"middlewareSettings"`
	EnabledMiddleware struct{}                  `json:"enabledMiddleware"`
	Metrics           metricsSettings           `json:"metrics"`
	RemotePlugins     []struct{}                `json:"remotePlugins"`
}

// senderSettings are those of the destination that is the service itself.
type senderSettings struct {
	APIKey                string              `json:"apiKey"`
	APIHost               string              `json:"apiHost"` // with the path, without the protocol
	Protocol              string              `json:"protocol"`
	RetryQueue            bool                `json:"retryQueue"`
	AddBundledMetadata    bool                `json:"addBundledMetadata"`
	UnbundledIntegrations []string            `json:"unbundledIntegrations"`
	MaybeBundledConfigIDs map[string][]string `json:"maybeBundledConfigIds"`
}

// metricsSettings say which share of their metrics the libraries send.
type metricsSettings struct {
	Host       string  `json:"host"`
	SampleRate float64 `json:"sampleRate"`
}

// serviceIntegration is the name under which the libraries know the service.
const serviceIntegration = "Segment.io"

// serveProject answers what a library asks for at its start. It learns to send
// to where it asked.
func (h *Handler) serveProject(w http.ResponseWriter, r *http.Request, key string) {
	source, known := h.config.Sources().SourceOf(key)
	if !known {
		h.respond(w, r, unknownKey(key))
		return
	}
	host, protocol, sampleRate := r.Host+"/v1", "http", 0.0
	if h.config.IsHTTPS(r) {
		protocol, sampleRate = "https", 0.1 // the libraries send metrics by https alone
	}
	enabled := map[string]any{"__default": map[string]any{"enabled": true, "integrations": struct{}{}}}
	header := w.Header()
	header["Content-Type"], header["X-Content-Type-Options"] = contentJSON, noSniff
	header.Set("Cache-Control", "no-store") // it depends on the Host that was asked
	_ = json.NewEncoder(w).Encode(projectSettings{
		Integrations: map[string]senderSettings{serviceIntegration: {
			APIKey: key, APIHost: host, Protocol: protocol, RetryQueue: true, AddBundledMetadata: true,
			UnbundledIntegrations: h.config.Integrations(source), MaybeBundledConfigIDs: map[string][]string{},
		}},
		Plan:          map[string]any{"track": enabled, "identify": enabled, "group": enabled},
		Metrics:       metricsSettings{Host: host, SampleRate: sampleRate},
		RemotePlugins: []struct{}{},
	})
}
