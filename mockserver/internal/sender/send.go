package sender

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/httpcheck"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// KeptBody is how much of a response's body in bytes an Attempt keeps.
	KeptBody = 4 << 10

	// maxDrained is how much of a response's body is read, so that its
	// connection can be used again; a longer one costs the connection.
	maxDrained = 64 << 10

	// keptHeader bounds the response header that an Attempt keeps, in bytes.
	keptHeader = 4 << 10

	// maxHeader bounds the response header that is read, in bytes.
	maxHeader = 64 << 10

	// idleTimeout is below the five seconds after which many servers close an
	// idle connection: a request sent just then would be lost.
	idleTimeout = 4 * time.Second

	maxIdlePerHost = 512

	// ownHeaders is how many headers a request has beside the static ones, at most.
	ownHeaders = 5
	// standardHeaders is how many more it has with a standard signature.
	standardHeaders = 3
	// traceHeaders is how many more it has as part of a trace, at most.
	traceHeaders = 2

	userAgent = "analytics-go/1.0"
)

// Sender sends deliveries over HTTP/1.1. It reuses connections, which it keeps
// for four seconds: make one Sender and share it. Its methods are safe for
// concurrent use.
type Sender struct {
	network   http.RoundTripper // what carries requests
	transport http.RoundTripper // network, or what is put around it
	timeout   time.Duration
}

// New returns a Sender, or an error that says which part of the configuration
// cannot be used. wrap, if not nil, is put around what carries requests.
func New(config webhook.SenderConfig, wrap func(http.RoundTripper) http.RoundTripper) (*Sender, error) {
	s := &Sender{network: config.Transport, timeout: config.Timeout}
	if s.timeout <= 0 {
		s.timeout = webhook.Timeout
	}
	if s.network == nil {
		t, err := newTransport(config, s.timeout)
		if err != nil {
			return nil, err
		}
		s.network = t
	}
	s.transport = s.network
	if wrap != nil {
		s.transport = wrap(s.network)
	}
	return s, nil
}

// newTransport returns what carries requests over the network: package http1, but where
// there is a proxy.
func newTransport(config webhook.SenderConfig, timeout time.Duration) (http.RoundTripper, error) {
	pool, err := roots(config.RootCAs, config.CAFile)
	if err != nil {
		return nil, err
	}
	g := &guard{policy: config.Policy, dialer: net.Dialer{Timeout: connectTimeout(timeout), Resolver: config.Resolver}}
	secure := &tls.Config{RootCAs: pool, VerifyConnection: refuseSelfSigned, MinVersion: tls.VersionTLS12}
	general := &http.Transport{
		DialContext:         g.dial,
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: timeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: maxIdlePerHost,
		// The log shows the bytes that came, and unpacking is work for an
		// attacker to order.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	if config.Proxy != nil {
		general.Proxy = g.viaProxy(config.Proxy)
		return general, nil
	}
	return &http1.Transport{
		Dial:           g.dial,
		TLS:            secure,
		IdleTimeout:    idleTimeout,
		MaxIdlePerHost: maxIdlePerHost,
		MaxHeader:      maxHeader,
		Other:          general,
	}, nil
}

// Close closes the connections that are idle, and each other one when its
// attempt is over.
func (s *Sender) Close() { (&http.Client{Transport: s.network}).CloseIdleConnections() }

// Request is one delivery to one entry of a destination.
type Request struct {
	Endpoint webhook.Endpoint
	// Body is the payload of the call. It must not be written to any more,
	// also after Send: the transport may still read it, and the Attempt keeps it.
	Body []byte
	// Signature is that of [webhook.Sign] for Body, or empty.
	Signature string
	// Standard are the signatures of [webhook.SignStandard], or empty, and SignedAt is
	// the time that they are over.
	Standard string
	SignedAt time.Time
	// MessageID is the call's messageId.
	MessageID string
	// Number is the number of this attempt, 1 at first.
	Number int
	// TraceParent and TraceState continue a trace, where they are not empty.
	TraceParent, TraceState string
}

// Continue has the request be part of a trace, or nil, as far as a destination is to know.
func (r *Request) Continue(trace *tracecontext.Context, as webhook.TraceContext) {
	if trace == nil || as == webhook.TraceNone {
		return
	}
	r.TraceParent = trace.Parent
	if as == webhook.TraceAll {
		r.TraceState = trace.State
	}
}

// Sign signs the request as the settings say, for all entries of a destination. Its
// Body and MessageID stay as they are from then on. The error says that a secret cannot
// be used, which [webhook.Settings.Validate] says before.
func (r *Request) Sign(s *webhook.Settings) error { return r.SignAt(s, time.Now()) }

// SignAt is Sign at a time.
func (r *Request) SignAt(s *webhook.Settings, now time.Time) error {
	if s.SharedSecret == "" {
		return nil
	}
	if s.Signature != webhook.SignatureStandard {
		r.Signature = webhook.Sign(s.SharedSecret, r.Body)
	}
	if s.Signature != webhook.SignatureStandard && s.Signature != webhook.SignatureBoth {
		return nil
	}
	r.SignedAt = now
	for _, secret := range []string{s.SharedSecret, s.PreviousSecret} {
		if secret == "" {
			continue
		}
		signature, err := webhook.SignStandard(secret, r.MessageID, r.SignedAt, r.Body)
		if err != nil {
			return err
		}
		r.Standard = strings.TrimPrefix(r.Standard+" "+signature, " ")
	}
	return nil
}

// Send makes one attempt: one POST, whose whole exchange ends within the
// Sender's time-out or with ctx. A redirect is not followed. Send does not
// retry; whether to do so is in the Attempt's Verdict, and when in [Next].
func (s *Sender) Send(ctx context.Context, r Request) webhook.Attempt {
	start := time.Now()
	a := webhook.Attempt{Time: start.UTC(), URL: r.Endpoint.URL, Number: r.Number, RequestBody: r.Body}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.exchange(ctx, r, &a)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // whatever broke, this was the cause
	}
	a.Duration = time.Since(start)
	conclude(&a, err, s.timeout)
	return a
}

// exchange sends the request and reads the response into a. Its error is nil
// when the response is complete, whatever its status.
func (s *Sender) exchange(ctx context.Context, r Request, a *webhook.Attempt) error {
	req, err := newRequest(ctx, r)
	if err != nil {
		return &requestError{err}
	}
	a.RequestHeader = req.Header
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	a.ResponseHeader = cutHeader(resp.Header)
	a.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), a.Time)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // what follows is no body, and may never end
	}
	a.ResponseBody, err = readResponse(resp)
	return err
}

func newRequest(ctx context.Context, r Request) (*http.Request, error) {
	header, err := r.Header()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Endpoint.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be used: %w", httpcheck.BareURLError(err))
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, errors.New("the URL cannot be used: it has no host, or its protocol is not http or https")
	}
	req.Header = header
	return req, nil
}

// Header returns the header of the request; its values share one array.
func (r Request) Header() (http.Header, error) {
	n := len(r.Endpoint.Headers) + ownHeaders
	if r.Standard != "" {
		n += standardHeaders
	}
	if r.TraceParent != "" {
		n += traceHeaders
	}
	h := make(http.Header, n)
	values := make([]string, 0, n)
	set := func(canonical, value string) {
		values = append(values, value)
		h[canonical] = values[len(values)-1 : len(values) : len(values)]
	}
	for name, value := range r.Endpoint.Headers {
		canonical := http.CanonicalHeaderKey(name)
		if httpcheck.Reserved(canonical) != "" || !httpcheck.IsToken(name) || strings.IndexFunc(value, httpcheck.IsControl) >= 0 {
			return nil, fmt.Errorf("the static header %q cannot be sent: see Settings.Validate", name)
		}
		set(canonical, value)
	}
	set("User-Agent", userAgent)
	set("Content-Type", "application/json")
	set(webhook.AttemptHeader, strconv.Itoa(r.Number))
	if strings.IndexFunc(r.MessageID, httpcheck.IsControl) >= 0 {
		return nil, fmt.Errorf("the messageId %q cannot be sent in a header: it has a control character", r.MessageID)
	}
	if r.MessageID != "" {
		set(webhook.MessageIDHeader, r.MessageID)
	}
	if r.Signature != "" {
		set(webhook.SignatureHeader, r.Signature)
	}
	if r.Standard != "" {
		set(webhook.StandardIDHeader, r.MessageID)
		set(webhook.StandardTimestampHeader, strconv.FormatInt(r.SignedAt.Unix(), 10))
		set(webhook.StandardSignatureHeader, r.Standard)
	}
	if r.TraceParent != "" {
		set(tracecontext.ParentHeader, r.TraceParent)
	}
	if r.TraceState != "" {
		set(tracecontext.StateHeader, r.TraceState)
	}
	return h, nil
}

// readResponse returns the start of a body and reads on to its end, if that is
// not too far. Its error is that of a body that breaks off.
func readResponse(resp *http.Response) (kept []byte, err error) {
	switch n := resp.ContentLength; {
	case resp.Body == http.NoBody:
		return nil, nil
	case n > 0 && n <= KeptBody: // an Attempt is kept with it, and takes no more memory than that
		kept = make([]byte, n)
		read, err := io.ReadFull(resp.Body, kept)
		return kept[:read], err
	}
	if kept, err = io.ReadAll(io.LimitReader(resp.Body, KeptBody)); err == nil && len(kept) == KeptBody {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrained-KeptBody))
	}
	return kept, err
}

// cutHeader returns h, or what fits of it into keptHeader bytes.
func cutHeader(h http.Header) http.Header {
	size := 0
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size <= keptHeader {
		return h
	}
	kept, room := make(http.Header), keptHeader
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			if room <= len(name) {
				return kept
			}
			v = strings.Clone(v[:min(len(v), room-len(name))])
			kept[name] = append(kept[name], v)
			room -= len(name) + len(v)
		}
	}
	return kept
}
