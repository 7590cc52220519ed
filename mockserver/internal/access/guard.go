package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A GuardConfig says who may use the handlers behind a [Guard].
type GuardConfig struct {
	// Token is what requests must bear: Authorization: Bearer <token>. Defaults to
	// none, which Loopback must allow.
	Token string
	// Loopback says that only this machine can reach the listener, so that no
	// token is needed. Defaults to false.
	Loopback bool
	// Hosts are the names by which the listener is reached, beside localhost and
	// plain addresses. Defaults to none.
	Hosts []string
	// Proxies are the addresses of proxies before the listener, whose X-Forwarded-For
	// and X-Forwarded-Proto are believed. Defaults to none, whereby X-Forwarded-Proto is
	// believed of anyone: it decides nothing but what its sender is told.
	Proxies []netip.Prefix
}

// A Guard keeps strangers from what operators use: by a token, and by the Host and the
// Origin of each request, since a browser on this machine may show a stranger's page.
type Guard struct {
	rules    atomic.Pointer[guardRules]
	throttle throttle
}

type guardRules struct {
	open    bool              // no token is needed
	token   [sha256.Size]byte // hashes have one length, so that comparing takes one time
	hosts   []string
	proxies []netip.Prefix
}

// ErrNoToken says that a listener that other machines can reach has no token.
var ErrNoToken = errors.New("mockserver: the admin API needs a token because its listener is not on loopback")

// NewGuard returns a Guard, or ErrNoToken.
func NewGuard(config GuardConfig) (*Guard, error) {
	g := &Guard{}
	return g, g.Configure(config)
}

// Configure replaces the rules, or returns ErrNoToken and leaves them as they were.
func (g *Guard) Configure(config GuardConfig) error {
	if config.Token == "" && !config.Loopback {
		return ErrNoToken
	}
	g.rules.Store(&guardRules{
		open:    config.Token == "",
		token:   sha256.Sum256([]byte(config.Token)),
		hosts:   slices.Clone(config.Hosts),
		proxies: slices.Clone(config.Proxies),
	})
	return nil
}

// Wrap passes only those requests to next that may use it.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := g.Check(r); refused != nil {
			switch refused.Status {
			case http.StatusUnauthorized:
				w.Header().Set("WWW-Authenticate", `Bearer realm="collector"`)
			case http.StatusTooManyRequests:
				w.Header().Set("Retry-After", strconv.Itoa(int(guessWindow/time.Second)))
			}
			refused.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsHTTPS reports whether a request came by HTTPS, or came so to a proxy that says so
// in X-Forwarded-Proto: one of GuardConfig.Proxies, or any where none is named.
func (g *Guard) IsHTTPS(r *http.Request) bool { return g.rules.Load().isHTTPS(r) }

// ClientOf returns the address that a request comes from, as far as trusted proxies tell;
// the zero value where that is no address.
func (g *Guard) ClientOf(r *http.Request) netip.Addr { return g.rules.Load().client(r) }

// IsOpen reports whether no token is needed.
func (g *Guard) IsOpen() bool { return g.rules.Load().open }

// Check returns how a request is refused, or nil.
func (g *Guard) Check(r *http.Request) *Error {
	rules := g.rules.Load()
	if !rules.knowsHost(r.Host) {
		// DNS rebinding: a page's own name that resolves to this machine.
		return Errorf(http.StatusMisdirectedRequest, "host_unknown",
			"unknown host %.100q; use localhost or the server's address, or add the name to admin.hosts", r.Host)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
		if refused := checkOrigin(r); refused != nil {
			return refused
		}
	}
	return g.CheckToken(r, r.Header.Get("Authorization"))
}

// CheckToken refuses a request without the token. Whoever has sent too many wrong
// ones is not told whether another is right.
func (g *Guard) CheckToken(r *http.Request, authorization string) *Error {
	rules := g.rules.Load()
	if rules.open {
		return nil
	}
	missing := &Error{Status: http.StatusUnauthorized, Code: "token_missing_or_wrong",
		Message: "missing or invalid admin token; send Authorization: Bearer <token>"}
	if authorization == "" {
		return missing
	}
	client := networkOf(rules.client(r))
	if g.throttle.blocks(client) {
		return &Error{Status: http.StatusTooManyRequests, Code: "too_many_wrong_tokens",
			Message: "too many invalid tokens from this address; try again in a minute"}
	}
	if !rules.admits(authorization) {
		g.throttle.wrong(client)
		return missing
	}
	return nil
}

// checkOrigin refuses what a page of another site asks for, by any method.
func checkOrigin(r *http.Request) *Error {
	asked := *r
	asked.Method = http.MethodPost // others are taken to change nothing
	if http.NewCrossOriginProtection().Check(&asked) == nil {
		return nil
	}
	return &Error{Status: http.StatusForbidden, Code: "cross_origin",
		Message: "cross-origin request; only pages of this server and programs may send it"}
}

// SameOrigin passes only those requests to next that no page of another site makes.
func SameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := checkOrigin(r); refused != nil {
			refused.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (r *guardRules) admits(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], r.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// knowsHost reports whether a Host header may name this server. A plain
// address cannot be rebound.
func (r *guardRules) knowsHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.ContainsFunc(r.hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// client is Guard.ClientOf.
func (r *guardRules) client(req *http.Request) netip.Addr {
	address := remoteAddr(req)
	forwarded := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(forwarded) - 1; i >= 0 && r.isProxy(address); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(forwarded[i]))
		if err != nil {
			break
		}
		address = before.Unmap()
	}
	return address
}

// networkOf returns of an address of IPv6 the network, since one client has all of it.
func networkOf(address netip.Addr) netip.Addr {
	if !address.Is6() {
		return address
	}
	network, _ := address.WithZone("").Prefix(64)
	return network.Addr()
}

// remoteAddr returns the other end of the connection.
func remoteAddr(r *http.Request) netip.Addr {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	address, _ := netip.ParseAddr(host)
	return address.Unmap()
}

func (r *guardRules) isProxy(address netip.Addr) bool {
	return slices.ContainsFunc(r.proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// IsHTTPS is Guard.IsHTTPS.
func (r *guardRules) isHTTPS(req *http.Request) bool {
	trusted := len(r.proxies) == 0 || r.isProxy(remoteAddr(req))
	return req.TLS != nil || trusted && strings.EqualFold(req.Header.Get("X-Forwarded-Proto"), "https")
}
