package webhook

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// Timeout is how long the whole exchange of an attempt may take.
	Timeout = 5 * time.Second

	// Window is how long after it was accepted a call is attempted.
	Window = 4 * time.Hour
)

// Headers of a delivery beside User-Agent, Content-Type and the static ones.
const (
	// SignatureHeader carries the signature, when there is a shared secret.
	SignatureHeader = "X-Signature"
	// MessageIDHeader carries the call's messageId, the same in every attempt:
	// a receiver can drop repeats by it.
	MessageIDHeader = "X-Message-Id"
	// AttemptHeader carries the number of the attempt in decimal, 1 at first. It is one
	// higher after each attempt that came to an end: a response, a time-out, or a
	// connection that failed. One that was broken off because the collector was stopped
	// or killed is made again with the same number, and so is one whose end a killed
	// collector could not store any more. A replay begins with 1 again.
	AttemptHeader = "X-Attempt"
)

// TraceContext says how much of the W3C trace context of the request that brought a call
// goes with it.
type TraceContext string

// Values of Settings.TraceContext.
const (
	// TraceParent sends the header traceparent, which has random numbers alone.
	TraceParent TraceContext = "parent"
	// TraceAll sends tracestate as well, which systems for tracing write into what they
	// like, also who a user is: for receivers that are trusted with that.
	TraceAll TraceContext = "all"
	// TraceNone sends neither.
	TraceNone TraceContext = "none"
)

// SenderConfig says how a collector makes its requests. The zero value is ready to use.
type SenderConfig struct {
	// Policy says which addresses may be connected to. Defaults to the public
	// Internet alone.
	Policy Policy
	// RootCAs are the authorities trusted for HTTPS. Defaults to the platform's.
	RootCAs *x509.CertPool
	// CAFile is a PEM file with further authorities. Defaults to none.
	CAFile string
	// Proxy returns the proxy for a request, nil for none, such as
	// http.ProxyFromEnvironment. The proxy's own address must pass Policy. The
	// proxy resolves the receiver's name anew, so of the receiver only what can
	// be known here is checked: an address in the URL, and what its name
	// resolves to here, if it does. Defaults to no proxy, whatever the
	// environment says.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout bounds a whole exchange, from DNS to the end of the response's
	// body. Defaults to [Timeout], 5 s.
	Timeout time.Duration
	// Resolver looks up hosts. Defaults to net.DefaultResolver.
	Resolver *net.Resolver
	// Transport carries requests in place of the network, for tests. Policy,
	// authorities and proxy then have no effect. Defaults to none.
	Transport http.RoundTripper
}
