package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestTypingWhileScriptsLoadSearches types a search into a failed call's page before the
// page's modules have loaded.
func TestTypingWhileScriptsLoadSearches(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "order customer", "Signed Up", `{}`), track("m2", "ada", "Home", `{}`))
	target, err := url.Parse(srv.URL)
	require.NoError(t, err)
	modules := make(chan struct{})
	var held atomic.Bool
	var replays atomic.Int32
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if held.Load() && r.URL.Path == "/assets/inspector.js" {
			<-modules
		}
		if strings.HasSuffix(r.URL.Path, "/replay") {
			replays.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	b := newTab(t, front.URL)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 2`)
	failed := eval[string](b, `document.querySelector('#rows a').href`)
	held.Store(true)
	release := func() {
		if held.Swap(false) {
			close(modules)
		}
	}
	t.Cleanup(release) // before the server closes

	command(b, page.Navigate, page.NavigateParams{URL: failed})
	poll[chromedp.Void](b, `document.readyState !== 'complete' && location.search.includes('call=') && document.querySelector('#help')`)
	const text = "user:order customer"
	b.typeKeys("/" + text[:4])
	require.Equal(t, text[:4], b.search())
	release()
	b.ready()
	b.typeKeys(text[4:])
	assert.Equal(t, text, b.search())
	assert.Zero(t, replays.Load())
	b.wait(`new URLSearchParams(location.search).get('q') === ` + quote(text))
	assert.Equal(t, text, b.search())
}

// typeKeys presses the keys of a text one after the other.
func (b *tab) typeKeys(text string) {
	b.t.Helper()
	for _, r := range text {
		b.key(string(r))
	}
}
