package mockserver_test

import (
	"crypto/tls"
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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
)

// TestTokensAreGuessedSlowly: ten wrong ones a minute from an address, at the login
// and at the API together; after them not even the right one is taken.
func TestTokensAreGuessedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, err := access.NewGuard(access.GuardConfig{Token: "the-admin-token", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
		require.NoError(t, err)
		collector, err := engine.New(engine.Config{})
		require.NoError(t, err)
		defer collector.Close()
		api := guard.Wrap(admin.New(collector, ""))
		pages := inspector.New(collector, inspector.Config{Guard: guard})
		try := func(token, from, forwarded string) (atAPI, atLogin int) {
			req := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/health", nil)
			req.RemoteAddr = from
			req.Header.Set("X-Forwarded-For", forwarded)
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			res := httptest.NewRecorder()
			api.ServeHTTP(res, req)
			login := httptest.NewRequest(http.MethodPost, "http://localhost/login", strings.NewReader("token="+token))
			login.RemoteAddr, login.Header = from, req.Header.Clone()
			login.Header.Del("Authorization")
			login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			page := httptest.NewRecorder()
			pages.ServeHTTP(page, login)
			return res.Code, page.Code
		}
		want := func(atAPI, atLogin int, token, from, forwarded string) {
			t.Helper()
			gotAPI, gotLogin := try(token, from, forwarded)
			assert.Equal(t, []int{atAPI, atLogin}, []int{gotAPI, gotLogin})
		}
		for i := range 5 {
			want(401, 401, fmt.Sprint("guess-", i), "192.0.2.1:1234", "203.0.113.9")
		}
		want(429, 429, "the-admin-token", "192.0.2.1:999", "")
		want(429, 429, "the-admin-token", "192.0.2.1:999", "198.51.100.7")
		want(200, 303, "the-admin-token", "192.0.2.2:1234", "")
		time.Sleep(time.Minute)
		want(200, 303, "the-admin-token", "192.0.2.1:1234", "")

		for i := range 5 { // through a proxy that is trusted; what its client says beyond itself is not
			want(401, 401, fmt.Sprint("guess-", i), "10.0.0.1:1234", fmt.Sprintf("198.51.100.%d, 203.0.113.9, 10.0.0.2", i))
		}
		want(429, 429, "the-admin-token", "10.0.0.1:1234", "203.0.113.9")
		want(200, 303, "the-admin-token", "10.0.0.1:1234", "203.0.113.10")

		for i := range 5 {
			want(401, 401, "guess", fmt.Sprintf("[2001:db8::%d]:1234", i), "")
		}
		want(429, 429, "the-admin-token", "[2001:db8::99]:1234", "")
		want(200, 303, "the-admin-token", "[2001:db8:0:1::1]:1234", "")
		for range 20 {
			api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/health", nil))
		}
		want(200, 303, "the-admin-token", "192.0.2.1:1234", "") // to send no token is no guess
	})
}

func TestWhoIsBelievedToHaveAskedByHTTPS(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
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
		guard, err := access.NewGuard(access.GuardConfig{Loopback: true, Proxies: test.proxies})
		require.NoError(t, err)
		req := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		req.RemoteAddr = test.from
		if test.tls {
			req.TLS = &tls.ConnectionState{}
		}
		if test.says != "" {
			req.Header.Set("X-Forwarded-Proto", test.says)
		}
		assert.Equal(t, test.want, guard.IsHTTPS(req), test.name)
	}
}

func TestLoginCookiesAreSecureBehindATrustedProxy(t *testing.T) {
	guard, err := access.NewGuard(access.GuardConfig{Token: "the-admin-token", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	require.NoError(t, err)
	pages := inspector.New(newCollector(t, engine.Config{}), inspector.Config{Guard: guard})
	for from, secure := range map[string]bool{"10.1.2.3:4": true, "192.0.2.1:4": false} {
		req := httptest.NewRequest(http.MethodPost, "http://localhost/login", strings.NewReader("token=the-admin-token"))
		req.RemoteAddr = from
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Forwarded-Proto", "https")
		res := httptest.NewRecorder()
		pages.ServeHTTP(res, req)
		require.Len(t, res.Result().Cookies(), 1)
		assert.Equal(t, secure, res.Result().Cookies()[0].Secure, from)
	}
}
