package ingest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// pathOf returns the path of a request as it may be kept and shown, without write
// keys: those of sources, what stands where libraries put one, and what looks like one.
func (h *Handler) pathOf(r *http.Request) string {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if at := strings.Index(strings.ToLower(path), "writekey="); at >= 0 { // its question mark was escaped
		at += len("writekey=")
		path = path[:at] + text.Redact(path[at:])
	}
	sources := h.config.Sources()
	parts := strings.Split(path, "/")
	expected := false // a write key
	for i, part := range parts {
		if part == "" {
			continue
		}
		if expected || looksLikeKey(part) || sources.hasWriteKey(part) {
			parts[i] = text.Redact(part)
		}
		expected = strings.EqualFold(part, "projects")
	}
	return text.Cut(keptPath, cmp.Or(strings.Join(parts, "/"), "/"))
}

// looksLikeKey reports whether a part of a path is a long text of letters and digits,
// as generated keys are and names of files are not.
func looksLikeKey(part string) bool {
	digits, letters := 0, 0
	for i := range len(part) {
		switch b := part[i]; {
		case b >= '0' && b <= '9':
			digits++
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			letters++
		case b != '-' && b != '_':
			return false
		}
	}
	return len(part) >= 16 && digits > 0 && letters > 0
}

const (
	// keptPath and keptMethod are how many characters of them a Refusal has.
	keptPath   = 200
	keptMethod = 20
)

// observeRefusal tells the observer of a request that was refused.
func (h *Handler) observeRefusal(r *http.Request, refused *requestError) {
	keys := WriteKeysOf(r)
	source, _ := h.config.Sources().SourceOf(cmp.Or(keys.Basic, keys.Other))
	h.config.Observer.Observe(event.Refusal{
		At: time.Now(), Method: text.Cut(keptMethod, r.Method), Path: h.pathOf(r), Source: source, Count: 1,
		Status: refused.status, Code: refused.code, Message: refused.message,
	})
}

// respond answers success, or says what was refused and why, and records it.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, refused *requestError) {
	header := w.Header()
	header["Content-Type"], header["X-Content-Type-Options"] = contentJSON, noSniff
	if refused == nil {
		_, _ = w.Write(successes)
		return
	}
	h.observeRefusal(r, refused)
	if refused.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int((refused.retryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(refused.status)
	_ = json.NewEncoder(w).Encode(answer{Code: refused.code, Message: refused.message, Error: refused.message, Calls: refused.calls})
}
