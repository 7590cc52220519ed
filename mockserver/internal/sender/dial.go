package sender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// connectTimeout is the part of an exchange's time-out after which there must be a
// connection. A receiver that cannot be reached is told by it from one that is
// reached and does not answer.
func connectTimeout(timeout time.Duration) time.Duration { return timeout * 4 / 5 }

// guard applies a policy to the connections of a dialler.
type guard struct {
	policy webhook.Policy
	dialer net.Dialer
}

var errUnreachable = errors.New("none of its allowed addresses could be reached")

// dial connects to addr. Each address is checked right before the connect call,
// after DNS, so an answer of DNS that changes afterwards changes nothing.
func (g *guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if err := g.policy.CheckHost(host); err != nil {
		return nil, err
	}
	var allowed atomic.Bool // addresses of one host can be tried side by side
	d := g.dialer
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("cannot check the address %q: %w", address, err)
		}
		if err := g.policy.Check(ap.Addr()); err != nil {
			return err
		}
		allowed.Store(true)
		return nil
	}
	conn, err := d.DialContext(ctx, network, addr)
	if refusal := (*webhook.PolicyError)(nil); errors.As(err, &refusal) && allowed.Load() {
		// One of several addresses was refused, another was tried: it is the
		// failure of that one that can pass.
		return nil, &net.OpError{Op: "dial", Net: network, Err: errUnreachable}
	}
	return conn, err
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

// requestError is an error of what was to be sent, found before sending.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }
