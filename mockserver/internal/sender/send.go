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
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/httpcheck"
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

	userAgent = "analytics-go/1.0"
)

// Sender sends deliveries over HTTP/1.1. It reuses connections, which it keeps
// for four seconds: make one Sender and share it. Its methods are safe for
// concurrent use.
type Sender struct {
	transport http.RoundTripper
	idle      interface{ CloseIdleConnections() } // nil if transport has none
	timeout   time.Duration
	receivers receivers
}

// New returns a Sender, or an error that says which part of the configuration
// cannot be used. wrap, if not nil, is put around what carries requests.
func New(config webhook.SenderConfig, wrap func(http.RoundTripper) http.RoundTripper) (*Sender, error) {
	s := &Sender{transport: config.Transport, timeout: config.Timeout}
	if s.timeout <= 0 {
		s.timeout = webhook.Timeout
	}
	if s.transport == nil {
		t, err := newTransport(config, s.timeout)
		if err != nil {
			return nil, err
		}
		s.transport = t
	}
	s.idle, _ = s.transport.(interface{ CloseIdleConnections() })
	if wrap != nil {
		s.transport = wrap(s.transport)
	}
	return s, nil
}

func newTransport(config webhook.SenderConfig, timeout time.Duration) (*http.Transport, error) {
	pool, err := roots(config.RootCAs, config.CAFile)
	if err != nil {
		return nil, err
	}
	g := &guard{policy: config.Policy, dialer: net.Dialer{Timeout: connectTimeout(timeout), Resolver: config.Resolver}}
	t := &http.Transport{
		DialContext:         g.dial,
		TLSClientConfig:     &tls.Config{RootCAs: pool, VerifyConnection: refuseSelfSigned, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: timeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: maxIdlePerHost,
		// The log shows the bytes that came, and unpacking is work for an
		// attacker to order.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	if config.Proxy != nil {
		t.Proxy = g.viaProxy(config.Proxy)
	}
	return t, nil
}

// viaProxy checks the receivers of requests that a proxy will connect to.
func (g *guard) viaProxy(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if u == nil || err != nil {
			return u, err
		}
		if err := g.checkProxied(r.Context(), r.URL.Hostname()); err != nil {
			return nil, err
		}
		return u, nil
	}
}

// checkProxied checks what can be known here of a host that a proxy will dial.
func (g *guard) checkProxied(ctx context.Context, host string) error {
	if strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		// net/http maps the host to ASCII after this check, "１０.0.0.1" to 10.0.0.1.
		return &requestError{errors.New("the URL cannot be used: through a proxy its host must be written in ASCII (xn--…)")}
	}
	if err := g.policy.CheckHost(host); err != nil {
		return err
	}
	resolver := g.dialer.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addrs, _ := resolver.LookupNetIP(ctx, "ip", host) // none: a name that only the proxy can resolve
	for _, addr := range addrs {
		if err := g.policy.Check(addr); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connections that are idle, and each other one when its
// attempt is over.
func (s *Sender) Close() {
	if s.idle != nil {
		s.idle.CloseIdleConnections()
	}
}

// Request is one delivery to one entry of a destination.
type Request struct {
	Endpoint webhook.Endpoint
	// Body is the payload of the call. It must not be written to any more,
	// also after Send: the transport may still read it, and the Attempt keeps it.
	Body []byte
	// Signature is that of [webhook.Sign] for Body, made once for all entries and
	// attempts; empty when there is no shared secret.
	Signature string
	// MessageID is the call's messageId.
	MessageID string
	// Number is the number of this attempt, 1 at first.
	Number int
}

// Send makes one attempt: one POST, whose whole exchange ends within the
// Sender's time-out or with ctx. A redirect is not followed. Send does not
// retry; whether to do so is in the Attempt's Verdict, and when in [Next].
func (s *Sender) Send(ctx context.Context, r Request) webhook.Attempt {
	start := time.Now()
	a := webhook.Attempt{Time: start.UTC(), URL: r.Endpoint.URL, Number: r.Number, RequestBody: r.Body}
	if deadline, ok := ctx.Deadline(); !ok || deadline.Sub(start) > s.timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
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
	header, err := headerOf(r)
	if err != nil {
		return &requestError{err}
	}
	to, err := s.receivers.find(r.Endpoint.URL)
	if err != nil {
		return &requestError{err}
	}
	a.RequestHeader = header
	req := to.WithContext(ctx)
	req.Header, req.ContentLength = header, int64(len(r.Body))
	req.GetBody = func() (io.ReadCloser, error) { // where a connection that was kept turns out to be closed
		if len(r.Body) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(r.Body)), nil
	}
	req.Body, _ = req.GetBody()
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
	a.ResponseBody, err = readResponse(resp.Body)
	return err
}

// manyReceivers bounds the receivers that are remembered.
const manyReceivers = 1024

// receivers remember a request to each URL, without what changes from one to the
// next: there are few URLs, and many requests.
type receivers struct {
	byURL sync.Map // string to *http.Request, which nobody changes
	count atomic.Int32
}

func (rs *receivers) find(url string) (*http.Request, error) {
	if r, ok := rs.byURL.Load(url); ok {
		return r.(*http.Request), nil
	}
	r, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be used: %w", httpcheck.BareURLError(err))
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" || r.URL.Host == "" {
		return nil, errors.New("the URL cannot be used: it has no host, or its protocol is not http or https")
	}
	if rs.count.Add(1) > manyReceivers {
		rs.byURL.Clear()
		rs.count.Store(1)
	}
	rs.byURL.Store(url, r)
	return r, nil
}

// headerOf makes the header of a request; its values share one array.
func headerOf(r Request) (http.Header, error) {
	h := make(http.Header, len(r.Endpoint.Headers)+5)
	values := make([]string, 0, len(r.Endpoint.Headers)+5)
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
	return h, nil
}

// readBuffers hold the part of a body that is kept, and behind it room for
// what is read only to be thrown away.
var readBuffers = sync.Pool{New: func() any { return new([2 * KeptBody]byte) }}

// readResponse returns the start of a body and reads on to its end, if that is
// not too far. Its error is that of a body that breaks off.
func readResponse(body io.Reader) (kept []byte, err error) {
	if body == http.NoBody {
		return nil, nil
	}
	buf := readBuffers.Get().(*[2 * KeptBody]byte)
	defer readBuffers.Put(buf)
	total := 0
	for err == nil && total < maxDrained {
		part := buf[KeptBody:]
		if total < KeptBody {
			part = buf[total:KeptBody]
		}
		var n int
		n, err = body.Read(part)
		total += n
	}
	if err == io.EOF {
		err = nil
	}
	return append(kept, buf[:min(total, KeptBody)]...), err
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
