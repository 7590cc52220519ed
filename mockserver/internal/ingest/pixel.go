package ingest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// pixel is a transparent GIF of 1 × 1 pixels.
var pixel = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

// maxDots limits the depth of dotted parameter names.
const maxDots = 16

// servePixel accepts a call from an image URL, for emails and pages without scripts. The
// response is always the image, because mail programs ignore errors. Problems are recorded.
func (h *Handler) servePixel(w http.ResponseWriter, r *http.Request, typ string) {
	if r.Method == http.MethodGet {
		if refused := h.processPixel(r, typ); refused != nil {
			h.observeRefusal(r, refused)
		}
	}
	header := w.Header()
	header.Set("Content-Type", "image/gif")
	header.Set("Cache-Control", "no-store")
	header["X-Content-Type-Options"] = noSniff
	_, _ = w.Write(pixel)
}

func (h *Handler) processPixel(r *http.Request, typ string) *requestError {
	query := r.URL.Query()
	text, err := pixelCall(query)
	if err != nil {
		return refuse(http.StatusBadRequest, tracking.CodeBadEncoding, "the parameter data is not valid base64: %v", err)
	}
	body := newBody()
	defer body.release()
	body.Write(text)
	return h.processBody(r, body, typ, WriteKeys{Other: query.Get("writeKey")}, nil)
}

// pixelCall returns the call in a query. The parameter data contains the call as JSON, or as
// base64 in any alphabet. Without it, each parameter is a field, with dots for nested objects.
func pixelCall(query url.Values) ([]byte, error) {
	if !query.Has("data") {
		return json.Marshal(dotted(query))
	}
	data := strings.TrimSpace(query.Get("data"))
	if strings.HasPrefix(data, "{") {
		return []byte(data), nil
	}
	data = strings.TrimRight(strings.NewReplacer(" ", "+", "-", "+", "_", "/").Replace(data), "=")
	return base64.RawStdEncoding.DecodeString(data)
}

// dotted returns the object described by parameters such as properties.plan.
func dotted(query url.Values) map[string]any {
	root := map[string]any{}
	for name, values := range query {
		object := root
		path := strings.SplitN(name, ".", maxDots)
		for _, key := range path[:len(path)-1] {
			inner, ok := object[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				object[key] = inner
			}
			object = inner
		}
		object[path[len(path)-1]] = values[0]
	}
	return root
}
