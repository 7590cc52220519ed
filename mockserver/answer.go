package mockserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is the body of every response of the tracking API.
type answer struct {
	Success bool        `json:"success"`
	Code    Code        `json:"code,omitempty"`
	Message string      `json:"message,omitempty"`
	Error   string      `json:"error,omitempty"` // the same as Message, for libraries that look here
	Calls   []Rejection `json:"calls,omitempty"`
}

// requestError is a request that was refused as a whole.
type requestError struct {
	status     int
	code       Code
	message    string
	retryAfter time.Duration
	calls      []Rejection
}

func (e *requestError) Error() string { return string(e.code) + ": " + e.message }

func refuse(status int, code Code, format string, args ...any) *requestError {
	return &requestError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// allowOrigin lets browsers of any site send calls, with any header: libraries add
// their own. Pages may ask with credentials, because some libraries do; the tracking
// API has none to look at.
func allowOrigin(w http.ResponseWriter, r *http.Request) {
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

// Headers and body of the commonest answer.
var (
	contentJSON = []string{"application/json"}
	noSniff     = []string{"nosniff"}
	successes   = []byte(`{"success": true}`)
)

// respond answers success, or says what was refused and why, and records it.
func (c *Collector) respond(w http.ResponseWriter, r *http.Request, refused *requestError) {
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentJSON, noSniff
	if refused == nil {
		_, _ = w.Write(successes)
		return
	}
	c.recordRefusal(r, refused)
	if refused.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((refused.retryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(refused.status)
	_ = json.NewEncoder(w).Encode(answer{Code: refused.code, Message: refused.message, Error: refused.message, Calls: refused.calls})
}
