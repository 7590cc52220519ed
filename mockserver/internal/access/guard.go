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

// A GuardConfig configures a [Guard].
type GuardConfig struct {
	// Token is the bearer token that requests must have. Defaults to none, which requires
	// Loopback.
	Token string
	// Loopback reports that only this machine can reach the listener. The token is then
	// optional. Defaults to false.
	Loopback bool
	// Hosts lists the host names of the listener. localhost and IP addresses are always
	// accepted. Defaults to none.
	Hosts []string
	// Proxies lists the addresses of trusted proxies. The Guard uses their X-Forwarded-For and
	// X-Forwarded-Proto headers. Defaults to none. Without proxies, X-Forwarded-Proto is accepted
	// from any client, because it only affects the response to that client.
	Proxies []netip.Prefix
}

// A Guard authorizes requests by token, host and origin. The checks of host and origin protect against
// pages of other sites in a browser on this machine.
type Guard struct {
	rules    atomic.Pointer[guardRules]
	throttle throttle
}

type guardRules struct {
	open    bool              // no token is required
	token   [sha256.Size]byte // hash of the token; hashes have equal lengths, so they can be compared in constant time
	hosts   []string
	proxies []netip.Prefix
}

// ErrNoToken reports that other machines can reach the listener, but no token is configured.
var ErrNoToken = errors.New("mockserver: the admin API needs a token because its listener is not on loopback")

func NewGuard(config GuardConfig) (*Guard, error) {
	g := &Guard{}
	return g, g.Configure(config)
}

// Configure replaces the configuration. If the configuration is invalid, it returns ErrNoToken and
// keeps the current one.
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

// Wrap returns a handler that passes authorized requests to next.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := g.Check(r); refused != nil {
			Refuse(w, r, refused)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Refuse writes the response to a request that Check refused.
func Refuse(w http.ResponseWriter, r *http.Request, refused *Error) {
	switch refused.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="collector"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(guessWindow/time.Second)))
	}
	refused.Write(w, r)
}

// IsHTTPS reports whether the client used HTTPS, either for this connection or according to
// X-Forwarded-Proto; see GuardConfig.Proxies.
func (g *Guard) IsHTTPS(r *http.Request) bool { return g.rules.Load().isHTTPS(r) }

// ClientOf returns the address of the client. It uses the X-Forwarded-For headers of trusted proxies.
// The result is the zero Addr if the address is invalid.
func (g *Guard) ClientOf(r *http.Request) netip.Addr { return g.rules.Load().client(r) }

// IsOpen reports whether no token is required.
func (g *Guard) IsOpen() bool { return g.rules.Load().open }

// Check returns an error if a request is not authorized.
func (g *Guard) Check(r *http.Request) *Error {
	rules := g.rules.Load()
	if !rules.knowsHost(r.Host) {
		// Prevent DNS rebinding, in which a name of another site resolves to this machine.
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

// CheckToken returns an error if a token is required and authorization does not contain it. After too
// many invalid tokens from an address, it also refuses valid tokens from this address.
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

// checkOrigin returns an error for a cross-origin request, even with a safe method.
func checkOrigin(r *http.Request) *Error {
	post := *r
	post.Method = http.MethodPost // because NewCrossOriginProtection allows all safe methods
	if http.NewCrossOriginProtection().Check(&post) == nil {
		return nil
	}
	return &Error{Status: http.StatusForbidden, Code: "cross_origin",
		Message: "cross-origin request; only pages of this server and programs may send it"}
}

// SameOrigin returns a handler that rejects cross-origin requests.
func SameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := checkOrigin(r); refused != nil {
			refused.Write(w, r)
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

// knowsHost reports whether a Host header is valid for this server. IP addresses are always valid,
// because DNS rebinding needs a name.
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

// networkOf returns the /64 network of an IPv6 address. A client usually controls all addresses in its
// network.
func networkOf(address netip.Addr) netip.Addr {
	if !address.Is6() {
		return address
	}
	network, _ := address.WithZone("").Prefix(64)
	return network.Addr()
}

// remoteAddr returns the peer address of the connection.
func remoteAddr(r *http.Request) netip.Addr {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	address, _ := netip.ParseAddr(host)
	return address.Unmap()
}

func (r *guardRules) isProxy(address netip.Addr) bool {
	return slices.ContainsFunc(r.proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

func (r *guardRules) isHTTPS(req *http.Request) bool {
	trusted := len(r.proxies) == 0 || r.isProxy(remoteAddr(req))
	return req.TLS != nil || trusted && strings.EqualFold(req.Header.Get("X-Forwarded-Proto"), "https")
}
