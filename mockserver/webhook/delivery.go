package webhook

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// Timeout is the default time limit of an attempt, from DNS to the end of the response.
	Timeout = 5 * time.Second

	// Window is how long a call is retried, counted from its acceptance.
	Window = 4 * time.Hour
)

// Headers of a request in addition to User-Agent, Content-Type and the configured headers.
const (
	// SignatureHeader contains the HMAC-SHA1 signature of the body; see [Sign]. Without a shared
	// secret, requests do not have this header.
	SignatureHeader = "X-Signature"
	// MessageIDHeader contains the call's messageId. It is the same in every attempt, so
	// receivers can detect duplicates.
	MessageIDHeader = "X-Message-Id"
	// AttemptHeader contains the number of the attempt in decimal, starting at 1. The number
	// increases after each attempt that ended with a response, a timeout or a connection
	// error. If the collector stopped before the attempt ended, or was killed before it stored
	// the result, it repeats the attempt with the same number. A replay starts at 1 again.
	AttemptHeader = "X-Attempt"
)

// A TraceContext selects the W3C trace context headers of requests to webhooks. Their values come
// from the request that contained the call.
type TraceContext string

// Values of Settings.TraceContext.
const (
	// TraceParent sends traceparent, which contains only random numbers.
	TraceParent TraceContext = "parent"
	// TraceAll also sends tracestate. Tracing systems may store arbitrary data in it, such as
	// user IDs, so use it for trusted receivers only.
	TraceAll TraceContext = "all"
	// TraceNone sends no trace headers.
	TraceNone TraceContext = "none"
)

// A SenderConfig configures the requests to webhooks. The zero value is ready to use.
type SenderConfig struct {
	// Policy decides which addresses the collector may connect to. The default allows the
	// public Internet.
	Policy Policy
	// RootCAs are the trusted certificate authorities. Defaults to those of the system.
	RootCAs *x509.CertPool
	// CAFile is a PEM file with additional certificate authorities. Optional.
	CAFile string
	// Proxy returns the proxy for a request, or nil, like http.ProxyFromEnvironment.
	// Policy must allow the address of the proxy. The proxy itself resolves host names, so Policy
	// cannot check the address it connects to. It checks IP addresses in the URL, and the
	// addresses that a host name resolves to locally. Defaults to no proxy; environment variables
	// are ignored.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout limits the duration of an attempt, from DNS to the end of the response. Defaults to
	// [Timeout].
	Timeout time.Duration
	// Resolver resolves host names. Defaults to net.DefaultResolver.
	Resolver *net.Resolver
	// Transport replaces the network in tests. If it is set, Policy, RootCAs, CAFile and Proxy are
	// ignored. Optional.
	Transport http.RoundTripper
}
