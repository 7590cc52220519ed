package sender

import (
	"bytes"
	"context"
	"crypto/rand"
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

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// KeptBody is the maximum number of bytes of a response body in an Attempt.
	KeptBody = 4 << 10

	// maxDrained is the maximum number of bytes read from a response body. The connection of a
	// longer response is closed.
	maxDrained = 64 << 10

	// maxBatchResponse is the maximum number of bytes of the response to a batch that are read.
	maxBatchResponse = 1 << 20

	// keptHeader is the maximum number of bytes of a response header in an Attempt.
	keptHeader = 4 << 10

	// maxHeader is the maximum number of bytes of a response header.
	maxHeader = 64 << 10

	// idleTimeout is less than five seconds, because many servers close idle connections then.
	// A request sent at that moment would fail.
	idleTimeout = 4 * time.Second

	maxIdlePerHost = 512

	// ownHeaders is the maximum number of headers, except configured headers and the headers
	// counted below.
	ownHeaders = 5
	// standardHeaders is the number of additional headers with a standard signature.
	standardHeaders = 3
	// traceHeaders is the maximum number of trace headers.
	traceHeaders = 2

	userAgent = "analytics-go/1.0"
)

// A Sender sends requests over HTTP/1.1 and reuses connections for four seconds. Its methods are
// safe for concurrent use.
type Sender struct {
	ID        string // value of [webhook.RelayHeader]
	network   http.RoundTripper
	transport http.RoundTripper // network, or the wrapped network
	timeout   time.Duration
}

// New returns a Sender, or an error if the configuration is invalid. wrap wraps the transport. It
// may be nil.
func New(config webhook.SenderConfig, wrap func(http.RoundTripper) http.RoundTripper) (*Sender, error) {
	s := &Sender{ID: rand.Text(), network: config.Transport, timeout: config.Timeout}
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

// newTransport returns a transport of package http1, or a transport of net/http if a proxy is used.
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
		// An Attempt contains the received bytes. Decompression would also let a receiver
		// cause load.
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

// Close closes idle connections. Connections in use are closed after their attempts.
func (s *Sender) Close() { (&http.Client{Transport: s.network}).CloseIdleConnections() }

// A Request is one request to one webhook.
type Request struct {
	Endpoint webhook.Endpoint
	// Body is the payload. It must not be modified, even after Send: the transport may still
	// read it, and the Attempt retains it.
	Body []byte
	// Signature is the result of [webhook.Sign] for Body, or empty.
	Signature string
	// Standard contains the results of [webhook.SignStandard] at SignedAt, or is empty.
	Standard string
	SignedAt time.Time
	// MessageID is the call's messageId.
	MessageID string
	// Number is the number of the attempt, starting at 1.
	Number int
	// Calls is the number of calls of a batch, or 0.
	Calls int
	// Relay reports that the receiver is another collector. Gzip compresses the body.
	Relay, Gzip bool
	// TraceParent and TraceState are the trace headers. They may be empty.
	TraceParent, TraceState string
}

// Content is the part of a request that does not depend on the settings of the destination.
type Content struct {
	ID     string       // messageId
	Body   []byte       // must not be modified; see [Request.Body]
	Number int          // number of the attempt, starting at 1
	Trace  *event.Trace // trace context of the sender, or nil
	At     time.Time    // time of the signature
	// Transform changes the body of a call. It may be nil.
	Transform webhook.Transform
}

// NewCallRequest returns a request that sends a call to a destination with these settings, as a
// batch of one call if they have a batch. The body of c is the stored call. The caller sets the
// Endpoint. The error reports a call that cannot be sent, or an invalid secret. It is ErrFiltered if
// the transform has no result.
func NewCallRequest(s *webhook.Settings, c Content) (r Request, err error) {
	if s.Batches().Calls > 0 {
		element, err := NewElement(s, c)
		if err != nil {
			return Request{}, err
		}
		return newBatchRequest(formatOf(s), []Request{element}, c.At)
	}
	if c.Body, err = Body(s, c); err != nil {
		return Request{}, err
	}
	return NewRequest(s, c)
}

// ErrFiltered reports that a call is not sent because its transform has no result.
var ErrFiltered = errors.New(transformReason + "the program has no result for this call")

// transformReason is the prefix of the errors of a transform.
const transformReason = "transform: "

// Body returns the body of a request for a call, or the element of a batch, without a signature. The body
// of c is the stored call.
func Body(s *webhook.Settings, c Content) ([]byte, error) { return formatOf(s).element(c) }

func webhookBody(s *webhook.Settings, c Content) ([]byte, error) {
	body, err := webhook.Payload(c.Body, s.AliasFields)
	if err != nil {
		return nil, err
	}
	transform := c.Transform
	if bytes.HasPrefix(body, []byte(`{"type":"delete"`)) { // other bodies start with the version
		transform = nil // a program for events could remove the user's ID
	}
	if transform != nil || s.Batch.Calls > 0 {
		body = append(fields.AppendString(append(body[:len(body)-1:len(body)-1], `,"messageId":`...), c.ID), '}')
	}
	if transform == nil {
		return body, nil
	}
	switch body, err = transform(body); {
	case err != nil:
		return nil, fmt.Errorf(transformReason+"%w", err)
	case body == nil:
		return nil, ErrFiltered
	}
	return body, nil
}

// NewRequest returns a signed request with the body c.Body.
func NewRequest(s *webhook.Settings, c Content) (Request, error) {
	r := Request{Body: c.Body, MessageID: c.ID, Number: c.Number}
	if c.Trace != nil && s.TraceContext != webhook.TraceNone {
		r.TraceParent = c.Trace.Parent
		if s.TraceContext == webhook.TraceAll {
			r.TraceState = c.Trace.State
		}
	}
	return r, r.sign(s, c.At)
}

// sign signs the request with the secrets of the settings.
func (r *Request) sign(s *webhook.Settings, now time.Time) error {
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

// Send makes one attempt: a POST request that ends at the timeout of the Sender, or when ctx is
// canceled. It does not follow redirects and does not retry; see the Verdict of the Attempt and
// [Next].
func (s *Sender) Send(ctx context.Context, r Request) webhook.Attempt {
	start := time.Now()
	a := webhook.Attempt{Time: start.UTC(), URL: r.Endpoint.URL, Number: r.Number, RequestBody: r.Body}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.exchange(ctx, r, &a)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // ctx caused any other error
	}
	a.Duration = time.Since(start)
	conclude(&a, err, s.timeout)
	return a
}

// exchange sends the request and reads the response into a. It returns nil for every complete
// response, regardless of its status.
func (s *Sender) exchange(ctx context.Context, r Request, a *webhook.Attempt) error {
	req, err := s.newRequest(ctx, r)
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
		return nil // after a protocol switch, the data is not a body and may never end
	}
	keep := KeptBody
	if r.Calls > 0 {
		keep = maxBatchResponse
	}
	a.ResponseBody, err = readResponse(resp, keep)
	return err
}

func (s *Sender) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	header, err := r.Header()
	if err != nil {
		return nil, err
	}
	if r.Relay {
		header.Set(webhook.RelayHeader, s.ID)
	}
	body := r.Body
	if r.Gzip {
		body = compress(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Endpoint.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("invalid URL: %w", http1.BareURLError(err))
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, errors.New("invalid URL: it has no host, or its protocol is not http or https")
	}
	req.Header = header
	return req, nil
}

// Header returns the header of the request. The values of its fields share one array.
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
		if http1.Reserved(canonical) != "" || !http1.IsToken(name) || strings.IndexFunc(value, http1.IsControl) >= 0 {
			return nil, fmt.Errorf("invalid static header %q: see Settings.Validate", name)
		}
		set(canonical, value)
	}
	set("User-Agent", userAgent)
	set("Content-Type", "application/json")
	switch {
	case !r.Relay:
		set(webhook.AttemptHeader, strconv.Itoa(r.Number))
	case r.Number > 1:
		set(retry.HeaderCount, strconv.Itoa(r.Number-1))
	}
	if r.Gzip {
		set("Content-Encoding", "gzip")
	}
	if strings.IndexFunc(r.MessageID, http1.IsControl) >= 0 {
		return nil, fmt.Errorf("the messageId %q cannot be sent in a header: it contains a control character", r.MessageID)
	}
	if r.MessageID != "" && r.Calls == 0 {
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
		set(event.TraceParentHeader, r.TraceParent)
	}
	if r.TraceState != "" {
		set(event.TraceStateHeader, r.TraceState)
	}
	return h, nil
}

// readResponse returns up to keep bytes of the body and reads the rest up to maxDrained. It returns an
// error if the body is incomplete.
func readResponse(resp *http.Response, keep int) (kept []byte, err error) {
	switch n := resp.ContentLength; {
	case resp.Body == http.NoBody:
		return nil, nil
	case n > 0 && n <= int64(keep): // exact size, because the Attempt retains the body
		kept = make([]byte, n)
		read, err := io.ReadFull(resp.Body, kept)
		return kept[:read], err
	}
	if kept, err = io.ReadAll(io.LimitReader(resp.Body, int64(keep))); err == nil && len(kept) == keep {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrained-KeptBody))
	}
	return kept, err
}

// cutHeader returns at most keptHeader bytes of h.
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
