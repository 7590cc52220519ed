package http1

import (
	"errors"
	"net/url"
	"strings"
)

const (
	ours     = "is set by the collector"
	hopByHop = "applies to one connection, not to the request"
)

// reserved maps the canonical names of headers that cannot be configured to the reasons.
var reserved = map[string]string{
	"Host":                ours,
	"Content-Length":      ours,
	"Content-Type":        ours,
	"User-Agent":          ours,
	"X-Signature":         ours,
	"X-Message-Id":        ours,
	"X-Attempt":           ours,
	"Webhook-Id":          ours,
	"Webhook-Timestamp":   ours,
	"Webhook-Signature":   ours,
	"Traceparent":         ours,
	"Tracestate":          ours,
	"Connection":          hopByHop,
	"Keep-Alive":          hopByHop,
	"Proxy-Connection":    hopByHop,
	"Proxy-Authenticate":  hopByHop,
	"Proxy-Authorization": hopByHop,
	"Te":                  hopByHop,
	"Trailer":             hopByHop,
	"Transfer-Encoding":   hopByHop,
	"Upgrade":             hopByHop,
	"Expect":              hopByHop,
}

// Reserved returns the reason why a header cannot be configured, or "". The name must be canonical.
func Reserved(canonical string) string { return reserved[canonical] }

// IsControl reports whether r is a control character that header values cannot contain.
func IsControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }

// IsToken reports whether name is a valid header name (RFC 9110, 5.6.2).
func IsToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// BareURLError removes the URL from a parse error, because it can contain a password.
func BareURLError(err error) error {
	if parse := (*url.Error)(nil); errors.As(err, &parse) {
		return parse.Err
	}
	return err
}
