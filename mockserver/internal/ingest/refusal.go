package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// pathOf returns the path of a request for logs and pages. It redacts the write keys of sources,
// path segments where libraries put a key, and segments that look like a key.
func (h *Handler) pathOf(r *http.Request) string {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if at := keyParameter.FindStringIndex(path); at != nil {
		path = path[:at[1]] + text.Redact(path[at[1]:])
	}
	sources := h.config.Sources()
	parts := strings.Split(path, "/")
	expected := false // the next segment is a write key
	for i, part := range parts {
		if part == "" {
			continue
		}
		if expected || looksLikeKey(part) || sources.hasWriteKey(part) {
			parts[i] = text.Redact(part)
		}
		expected = strings.EqualFold(part, "projects")
	}
	return text.Cut(maxPath, cmp.Or(strings.Join(parts, "/"), "/"))
}

// keyParameter matches the query parameter of a write key. It is part of the path if the question mark is
// escaped.
var keyParameter = regexp.MustCompile(`(?i)writekey=`)

// looksLikeKey reports whether a path segment is a long string of letters and digits, like a
// generated key and unlike a file name.
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
	// maxPath and maxMethod are the maximum lengths of a Refusal's path and method in characters.
	maxPath   = 200
	maxMethod = 20
	// maxRefusedBody is the maximum length of a Refusal's body in bytes.
	maxRefusedBody = 4 << 10
	// maxUserAgent is the maximum length of a Sender's User-Agent in characters.
	maxUserAgent = 200
	// minSecretLength is the minimum length of a write key that is redacted everywhere. A shorter
	// key may be part of a word, so it is redacted only as a whole word.
	minSecretLength = 8
)

// senderOf returns the sender of a request.
func (h *Handler) senderOf(r *http.Request) (s tracking.Sender) {
	if address := h.config.ClientOf(r); address.IsValid() {
		s.Address = address.String()
	}
	s.UserAgent = text.Cut(maxUserAgent, text.Valid(r.UserAgent()))
	return s
}

// notShown replaces a body in which the values to redact cannot be found.
const notShown = "(not shown, because a source redacts values)"

// redactedBody returns the beginning of a refused body for logs and pages. It replaces write keys
// with asterisks: the keys of sources and of the request, and values of fields named writeKey. The
// body may be invalid, so the values that a source redacts cannot be found in it: if any source
// redacts values, redactedBody returns notShown.
func (h *Handler) redactedBody(body []byte, keys WriteKeys) []byte {
	if len(body) > 0 && h.config.Sources().redacts() {
		return []byte(notShown)
	}
	kept := bytes.Clone(body[:min(len(body), maxRefusedBody)])
	hideMembers(kept)
	hide(kept, keys.Basic)
	hide(kept, keys.Other)
	for _, s := range h.config.Sources().sources {
		hide(kept, s.WriteKey)
	}
	return kept
}

// hide redacts all occurrences of a key, including a truncated one at the end.
func hide(kept []byte, key string) {
	if key == "" {
		return
	}
	for from := 0; ; {
		at := bytes.Index(kept[from:], []byte(key))
		if at < 0 {
			break
		}
		from += at
		end := from + len(key)
		if len(key) >= minSecretLength || !isWord(kept, from-1) && !isWord(kept, end) {
			blank(kept[from:end])
		}
		from = end
	}
	if len(kept) < maxRefusedBody {
		return
	}
	for n := min(len(key)-1, len(kept)); n > 0; n-- {
		if bytes.HasSuffix(kept, []byte(key[:n])) {
			blank(kept[len(kept)-n:])
			return
		}
	}
}

// isWord reports whether the byte at an index is a letter or a digit.
func isWord(b []byte, at int) bool {
	return at >= 0 && at < len(b) && (b[at] >= '0' && b[at] <= '9' || b[at]|0x20 >= 'a' && b[at]|0x20 <= 'z')
}

// hideMembers redacts the values after the name writeKey in forms and in JSON, even if the JSON is
// invalid.
func hideMembers(kept []byte) {
	const name = "writekey"
	for i := 0; i+len(name) <= len(kept); i++ {
		if kept[i]|0x20 != name[0] || !strings.EqualFold(string(kept[i:i+len(name)]), name) {
			continue
		}
		i += len(name)
		i += len(kept[i:]) - len(bytes.TrimLeft(kept[i:], "\"'\\ \t\r\n:=")) // start of the value
		end := i
		for end < len(kept) && bytes.IndexByte([]byte("\"'&,} \t\r\n"), kept[end]) < 0 {
			end++
		}
		blank(kept[i:end])
		i = end
	}
}

func blank(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}

// observeRefusal reports a refused request to the observer.
func (h *Handler) observeRefusal(r *http.Request, refused *requestError) {
	keys := WriteKeysOf(r)
	source, _ := h.config.Sources().SourceOf(cmp.Or(keys.Basic, keys.Other))
	from := h.senderOf(r)
	from.Library = refused.library
	h.config.Observer.Observe(event.Refusal{
		At: time.Now(), Method: text.Cut(maxMethod, r.Method), Path: h.pathOf(r), Source: cmp.Or(refused.source, source), Count: 1,
		Status: refused.status, Code: refused.code, Message: refused.message, Sender: from, Body: refused.body,
	})
}

// respondUnread responds to a request that was refused before its body was read. It then reads
// the beginning of the body for the report.
func (h *Handler) respondUnread(w http.ResponseWriter, r *http.Request, refused *requestError) {
	body := newBody()
	defer body.release()
	start := *r
	start.ContentLength = -1                       // reads only the beginning of the body
	_ = body.readRequest(&start, maxRefusedBody-1) // keeps the part that arrived before an error
	refused.body = h.redactedBody(body.Bytes(), WriteKeysOf(r))
	h.respond(w, r, refused)
}

// respond sends the success response if refused is nil. Otherwise it reports the refusal and sends
// its response.
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
	_ = json.NewEncoder(w).Encode(response{Code: refused.code, Message: refused.message, Error: refused.message, Calls: refused.calls})
}

// response is the JSON body of a refusal.
type response struct {
	Success bool                 `json:"success"`
	Code    tracking.Code        `json:"code,omitempty"`
	Message string               `json:"message,omitempty"`
	Error   string               `json:"error,omitempty"` // same as Message, for libraries that expect this field
	Calls   []tracking.Rejection `json:"calls,omitempty"`
}

// A requestError is the refusal of a whole request.
type requestError struct {
	status     int
	code       tracking.Code
	message    string
	retryAfter time.Duration
	calls      []tracking.Rejection
	body       []byte // see event.Refusal.Body; nil if the body was not read
	library    string // library of the first call
	source     string // source whose limit is exceeded, or first known source of the calls, or ""
}

func (e *requestError) Error() string { return string(e.code) + ": " + e.message }

func refuse(status int, code tracking.Code, format string, args ...any) *requestError {
	return &requestError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// Headers and body of the success response.
var (
	contentJSON = []string{"application/json"}
	noSniff     = []string{"nosniff"}
	successes   = []byte(`{"success": true}`)
)
