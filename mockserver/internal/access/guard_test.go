package access_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

func newGuard(t *testing.T, config access.GuardConfig) *access.Guard {
	t.Helper()
	guard, err := access.NewGuard(config)
	require.NoError(t, err)
	return guard
}

func TestGuardRejectsUnauthorizedRequests(t *testing.T) {
	open := access.GuardConfig{Loopback: true, Hosts: []string{"collector.example.com"}}
	locked := access.GuardConfig{Token: "right-token"}
	const bearer = "Bearer right-token"
	for _, c := range []struct {
		name    string
		config  access.GuardConfig
		method  string
		host    string
		headers map[string]string
		status  int
	}{
		{"loopback needs no token", open, "GET", "127.0.0.1:8765", nil, 200},
		{"localhost", open, "GET", "localhost:8765", nil, 200},
		{"a name below localhost", open, "GET", "collector.localhost", nil, 200},
		{"IPv6", open, "GET", "[::1]:8765", nil, 200},
		{"a configured name", open, "GET", "Collector.Example.com:8765", nil, 200},
		{"a rebound name", open, "GET", "attacker.example:8765", nil, 421},
		{"a name that ends like ours", open, "GET", "notlocalhost", nil, 421},
		{"a name that begins like an address", open, "GET", "127.0.0.1.attacker.example", nil, 421},
		{"no host", open, "GET", "", nil, 421},
		{"a rebound name with the token", locked, "GET", "attacker.example", map[string]string{"Authorization": bearer}, 421},
		{"no token", locked, "GET", "10.0.0.1", nil, 401},
		{"a wrong token", locked, "GET", "10.0.0.1", map[string]string{"Authorization": "Bearer wrong-token"}, 401},
		{"a part of the token", locked, "GET", "10.0.0.1", map[string]string{"Authorization": "Bearer right"}, 401},
		{"an empty token", locked, "GET", "10.0.0.1", map[string]string{"Authorization": "Bearer "}, 401},
		{"another scheme", locked, "GET", "10.0.0.1", map[string]string{"Authorization": "Basic right-token"}, 401},
		{"the token", locked, "GET", "10.0.0.1", map[string]string{"Authorization": bearer}, 200},
		{"the token, in lower case", locked, "GET", "10.0.0.1", map[string]string{"Authorization": "bearer right-token"}, 200},
		{"a program", open, "POST", "localhost:8765", nil, 200},
		{"our own page", open, "POST", "localhost:8765", map[string]string{"Origin": "http://localhost:8765", "Sec-Fetch-Site": "same-origin"}, 200},
		{"our own page in an old browser", open, "POST", "localhost:8765", map[string]string{"Origin": "http://localhost:8765"}, 200},
		{"another site's page", open, "POST", "localhost:8765", map[string]string{"Origin": "https://attacker.example", "Sec-Fetch-Site": "cross-site"}, 403},
		{"another site's page in an old browser", open, "POST", "localhost:8765", map[string]string{"Origin": "https://attacker.example"}, 403},
		{"another port's page", open, "POST", "localhost:8765", map[string]string{"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}, 403},
		{"a sandboxed page", open, "DELETE", "localhost:8765", map[string]string{"Origin": "null"}, 403},
		{"another site's page, with the token", locked, "POST", "10.0.0.1", map[string]string{"Authorization": bearer, "Origin": "https://attacker.example"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			guard := newGuard(t, c.config)
			r := httptest.NewRequestWithContext(t.Context(), c.method, "/api/v1/ledger", nil)
			r.Host = c.host
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			assert.Equal(t, c.status, w.Code)
			if c.status == 401 {
				assert.Equal(t, `Bearer realm="collector"`, w.Header().Get("WWW-Authenticate"))
			}
			if c.status != 200 {
				var answer map[string]any
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
				assert.NotEmpty(t, answer["message"])
				assert.NotContains(t, w.Body.String(), "right-token")
			}
		})
	}
	_, err := access.NewGuard(access.GuardConfig{})
	assert.ErrorIs(t, err, access.ErrNoToken)
}

// TestInvalidTokensAreThrottled sends ten invalid tokens within a minute to the login page and the
// API. After that, valid tokens are refused too.
func TestInvalidTokensAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, access.GuardConfig{Token: "the-admin-token", Proxies: proxies})
		try := func(want int, token, from, forwarded string) {
			t.Helper()
			req := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/health", nil)
			req.RemoteAddr = from
			req.Header.Set("X-Forwarded-For", forwarded)
			status := http.StatusOK
			if refused := guard.CheckToken(req, "Bearer "+token); refused != nil { // the same check as on the login page
				status = refused.Status
			}
			assert.Equal(t, want, status)
			req.Header.Set("Authorization", "Bearer "+token)
			res := httptest.NewRecorder()
			guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(res, req)
			assert.Equal(t, want, res.Code)
			if want == http.StatusTooManyRequests {
				assert.Equal(t, "60", res.Header().Get("Retry-After"))
			}
		}
		for i := range 5 {
			try(401, fmt.Sprint("guess-", i), "192.0.2.1:1234", "203.0.113.9")
		}
		try(429, "the-admin-token", "192.0.2.1:999", "")
		try(429, "the-admin-token", "192.0.2.1:999", "198.51.100.7")
		try(200, "the-admin-token", "192.0.2.2:1234", "")
		time.Sleep(time.Minute)
		try(200, "the-admin-token", "192.0.2.1:1234", "")

		for i := range 5 { // the peer is a trusted proxy; addresses added by the client are ignored
			try(401, fmt.Sprint("guess-", i), "10.0.0.1:1234", fmt.Sprintf("198.51.100.%d, 203.0.113.9, 10.0.0.2", i))
		}
		try(429, "the-admin-token", "10.0.0.1:1234", "203.0.113.9")
		try(200, "the-admin-token", "10.0.0.1:1234", "203.0.113.10")

		for i := range 5 {
			try(401, "guess", fmt.Sprintf("[2001:db8::%d]:1234", i), "")
		}
		try(429, "the-admin-token", "[2001:db8::99]:1234", "")
		try(200, "the-admin-token", "[2001:db8:0:1::1]:1234", "")
		for range 20 { // a missing token does not count as invalid
			guard.CheckToken(httptest.NewRequest(http.MethodGet, "http://localhost/", nil), "")
		}
		try(200, "the-admin-token", "192.0.2.1:1234", "")
	})
}

func TestIsHTTPSTrustsProxies(t *testing.T) {
	for _, test := range []struct {
		name       string
		proxies    []netip.Prefix
		tls        bool
		from, says string
		want       bool
	}{
		{"TLS", proxies, true, "192.0.2.1:4", "", true},
		{"TLS, to a proxy that was asked by HTTP", proxies, true, "10.1.2.3:4", "http", true},
		{"a proxy", proxies, false, "10.1.2.3:4", "https", true},
		{"a proxy that shouts", proxies, false, "10.1.2.3:4", "HTTPS", true},
		{"a proxy that was asked by HTTP", proxies, false, "10.1.2.3:4", "http", false},
		{"a proxy that says nothing", proxies, false, "10.1.2.3:4", "", false},
		{"a stranger", proxies, false, "192.0.2.1:4", "https", false},
		{"anyone where no proxy is known", nil, false, "192.0.2.1:4", "https", true},
		{"anyone who says nothing", nil, false, "192.0.2.1:4", "", false},
	} {
		req := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		req.RemoteAddr = test.from
		if test.tls {
			req.TLS = &tls.ConnectionState{}
		}
		if test.says != "" {
			req.Header.Set("X-Forwarded-Proto", test.says)
		}
		guard := newGuard(t, access.GuardConfig{Token: "the-admin-token", Proxies: test.proxies})
		assert.Equal(t, test.want, guard.IsHTTPS(req), test.name)
		sessions := access.Sessions{Guard: guard, State: state.NewMemory()}
		assert.Equal(t, test.want, sessions.Start(req).Secure, test.name)
	}
}

// A logout needs no session, so an invalid cookie must not occupy the store.
func TestLogoutStoresOnlyValidSessions(t *testing.T) {
	store := state.NewMemory()
	sessions := access.Sessions{Guard: newGuard(t, access.GuardConfig{Token: "the-admin-token"}), State: store}
	logout := func(cookie http.Cookie) {
		req := httptest.NewRequest(http.MethodPost, "http://localhost/logout", nil)
		req.AddCookie(&cookie)
		_, err := sessions.End(req)
		require.NoError(t, err)
	}
	valid := sessions.Start(httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
	for _, value := range []string{"", "99999999999.x.y", "99999999999", valid.Value + "0"} {
		logout(http.Cookie{Name: valid.Name, Value: value})
	}
	keys, err := store.Keys(t.Context(), "logout")
	require.NoError(t, err)
	require.Empty(t, keys)
	logout(*valid)
	keys, err = store.Keys(t.Context(), "logout")
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

func FuzzGuard(f *testing.F) {
	f.Add("localhost:80", "192.0.2.1:1", "10.0.0.1, 203.0.113.9", "Bearer right-token", "99999999999.x.y")
	f.Add("[::1]:80", "[fe80::1%eth0]:1", "::ffff:1.2.3.4,", "bearer  right-token ", "-1..")
	guard, err := access.NewGuard(access.GuardConfig{Token: "right-token", Hosts: []string{"a.example"}, Proxies: proxies})
	require.NoError(f, err)
	sessions := access.Sessions{Guard: guard, State: state.NewMemory()}
	name := sessions.Start(httptest.NewRequest(http.MethodGet, "http://localhost/", nil)).Name
	f.Fuzz(func(t *testing.T, host, from, forwarded, authorization, cookie string) {
		req := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		req.Host, req.RemoteAddr = host, from
		req.Header.Set("X-Forwarded-For", forwarded)
		req.Header.Set("Authorization", authorization)
		req.Header.Set("Cookie", name+"="+cookie)
		if guard.Check(req) == nil && !strings.Contains(authorization, "right-token") {
			t.Error("an invalid token is accepted")
		}
		if sessions.Has(req) {
			t.Error("an invalid session is accepted")
		}
	})
}
