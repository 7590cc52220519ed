package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
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
	return text.Cut(maxPath, cmp.Or(strings.Join(parts, "/"), "/"))
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
	// maxPath and maxMethod are how many characters of them a Refusal has.
	maxPath   = 200
	maxMethod = 20
	// maxRefusedBody is how many bytes of its body it has.
	maxRefusedBody = 4 << 10
	// maxUserAgent is how many characters of a User-Agent a Sender has.
	maxUserAgent = 200
	// minSecretLength is how long a write key is that is hidden wherever it stands. A shorter one
	// is hidden where it stands alone: it may be a word.
	minSecretLength = 8
)

// senderOf returns who sent a request, as far as its header says.
func (h *Handler) senderOf(r *http.Request) (s tracking.Sender) {
	if address := h.config.ClientOf(r); address.IsValid() {
		s.Address = address.String()
	}
	s.UserAgent = text.Cut(maxUserAgent, strings.ToValidUTF8(r.UserAgent(), "\uFFFD"))
	return s
}

// keptOf returns the beginning of a body that was refused as it may be kept and shown,
// with asterisks in place of write keys: those of sources, those that the request came
// with, and what a member writeKey says.
func (h *Handler) redactedBody(body []byte, keys WriteKeys) []byte {
	kept := bytes.Clone(body[:min(len(body), maxRefusedBody)])
	hideMembers(kept)
	hide(kept, keys.Basic)
	hide(kept, keys.Other)
	for _, s := range h.config.Sources().sources {
		hide(kept, s.WriteKey)
	}
	return kept
}

// hide puts asterisks in place of a key, and of the beginning of one that is cut off.
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

// isWord reports whether there is a letter or a digit at a place.
func isWord(b []byte, at int) bool {
	return at >= 0 && at < len(b) && (b[at] >= '0' && b[at] <= '9' || b[at]|0x20 >= 'a' && b[at]|0x20 <= 'z')
}

// hideMembers hides what stands behind the name writeKey, in JSON, also such as is broken,
// and in forms.
func hideMembers(kept []byte) {
	const name = "writekey"
	for i := 0; i+len(name) <= len(kept); i++ {
		if kept[i]|0x20 != name[0] || !strings.EqualFold(string(kept[i:i+len(name)]), name) {
			continue
		}
		i += len(name)
		i += len(kept[i:]) - len(bytes.TrimLeft(kept[i:], "\"'\\ \t\r\n:=")) // to the value
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

// observeRefusal tells the observer of a request that was refused.
func (h *Handler) observeRefusal(r *http.Request, refused *requestError) {
	keys := WriteKeysOf(r)
	source, _ := h.config.Sources().SourceOf(cmp.Or(keys.Basic, keys.Other))
	from := h.senderOf(r)
	from.Library = refused.library
	h.config.Observer.Observe(event.Refusal{
		At: time.Now(), Method: text.Cut(maxMethod, r.Method), Path: h.pathOf(r), Source: source, Count: 1,
		Status: refused.status, Code: refused.code, Message: refused.message, Sender: from, Body: refused.body,
	})
}

// respondUnread answers a request that was refused for its path or method, and keeps the
// beginning of its body.
func (h *Handler) respondUnread(w http.ResponseWriter, r *http.Request, refused *requestError) {
	body := newBody()
	defer body.release()
	start := *r
	start.ContentLength = -1                       // however long the rest is
	_ = body.readRequest(&start, maxRefusedBody-1) // what has come is kept, also where it cannot be read any further
	refused.body = h.redactedBody(body.Bytes(), WriteKeysOf(r))
	h.respond(w, r, refused)
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
	_ = json.NewEncoder(w).Encode(response{Code: refused.code, Message: refused.message, Error: refused.message, Calls: refused.calls})
}

// answer is the body of every response of the tracking API.
type response struct {
	Success bool                 `json:"success"`
	Code    tracking.Code        `json:"code,omitempty"`
	Message string               `json:"message,omitempty"`
	Error   string               `json:"error,omitempty"` // the same as Message, for libraries that look here
	Calls   []tracking.Rejection `json:"calls,omitempty"`
}

// requestError is a request that was refused as a whole.
type requestError struct {
	status     int
	code       tracking.Code
	message    string
	retryAfter time.Duration
	calls      []tracking.Rejection
	body       []byte // of the request, see event.Refusal; nil where it was not read
	library    string // that made the first call
}

func (e *requestError) Error() string { return string(e.code) + ": " + e.message }

func refuse(status int, code tracking.Code, format string, args ...any) *requestError {
	return &requestError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// Headers and body of the commonest answer.
var (
	contentJSON = []string{"application/json"}
	noSniff     = []string{"nosniff"}
	successes   = []byte(`{"success": true}`)
)
