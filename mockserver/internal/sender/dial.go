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

// connectTimeout returns the time limit for connecting. It is shorter than the timeout, so that an
// attempt can distinguish an unreachable receiver from a receiver that does not respond.
func connectTimeout(timeout time.Duration) time.Duration { return timeout * 4 / 5 }

// A guard checks the connections of a dialer against a policy.
type guard struct {
	policy webhook.Policy
	dialer net.Dialer
}

var errUnreachable = errors.New("none of its allowed addresses could be reached")

// dial connects to addr. It checks each address right before connecting, after DNS resolution, so
// that changed DNS records cannot bypass the policy.
func (g *guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if err := g.policy.CheckHost(host); err != nil {
		return nil, err
	}
	var allowed atomic.Bool // addresses may be tried concurrently
	d := g.dialer
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("could not check the address %q: %w", address, err)
		}
		if err := g.policy.Check(ap.Addr()); err != nil {
			return err
		}
		allowed.Store(true)
		return nil
	}
	conn, err := d.DialContext(ctx, network, addr)
	if refusal := (*webhook.PolicyError)(nil); errors.As(err, &refusal) && allowed.Load() {
		// The policy refused one address, and another one failed. Report the temporary failure.
		return nil, &net.OpError{Op: "dial", Net: network, Err: errUnreachable}
	}
	return conn, err
}

// viaProxy wraps proxy with a check of the receivers of proxied requests.
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

// checkProxied checks the receiver of a proxied request as far as possible.
func (g *guard) checkProxied(ctx context.Context, host string) error {
	if strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		// net/http converts the host to ASCII after this check: "１０.0.0.1" becomes 10.0.0.1.
		return &requestError{errors.New("invalid URL: with a proxy, the host must be in ASCII (xn--…)")}
	}
	if err := g.policy.CheckHost(host); err != nil {
		return err
	}
	resolver := g.dialer.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addrs, _ := resolver.LookupNetIP(ctx, "ip", host) // if this fails, the proxy may still be able to resolve the host
	for _, addr := range addrs {
		if err := g.policy.Check(addr); err != nil {
			return err
		}
	}
	return nil
}

// A requestError reports that a request is invalid and was not sent.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }
