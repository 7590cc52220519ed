package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestTypingWhileScriptsLoadSearches types a search before the modules of the page have
// loaded.
func TestTypingWhileScriptsLoadSearches(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "order customer", "Signed Up", `{}`), track("m2", "ada", "Home", `{}`))
	modules := make(chan struct{})
	var held atomic.Bool
	var replays atomic.Int32
	b := newTab(t, front(t, srv.URL, func(_ http.ResponseWriter, r *http.Request) bool {
		if held.Load() && strings.HasSuffix(r.URL.Path, "/inspector.js") {
			<-modules
		}
		if strings.HasSuffix(r.URL.Path, "/replay") {
			replays.Add(1)
		}
		return false
	}))
	command(b, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 2`)
	failed := eval[string](b, `document.querySelector('#rows a').href`)
	held.Store(true)
	release := func() {
		if held.Swap(false) {
			close(modules)
		}
	}
	t.Cleanup(release) // runs before the server closes

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

// TestQuickLettersDoNotReplay types text with shortcut letters outside a field.
func TestQuickLettersDoNotReplay(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.press("j" + kb.Enter)
	b.waitText("#panel h2", "Order Completed")
	b.run(`window.copied = 0; navigator.clipboard.writeText = async () => { copied++ }; undefined`)
	b.typeKeys("order customer ccrr")
	b.typeKeys("r") // pressed before pauseTyping
	b.pauseTyping()
	assert.False(t, eval[bool](b, `document.querySelector('#confirm-replay').open`))
	assert.Zero(t, eval[int](b, `copied`))
	b.typeKeys("r")
	b.wait(`document.querySelector('#confirm-replay').open`)
}

// TestKeysPressedWhileScriptsLoad presses keys before the modules of the page have loaded.
func TestKeysPressedWhileScriptsLoad(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Home", `{}`), track("m2", "ada", "Cart", `{}`), track("m3", "ada", "Paid", `{}`))
	for name, test := range map[string]struct{ keys, want string }{
		"the list of keys":             {"?", `document.querySelector('#help:popover-open')`},
		"move to the second row":       {"jj", `document.activeElement === document.querySelector('#rows tr:nth-child(2) a')`},
		"replay asks":                  {"jr", `document.querySelector('#confirm-replay').open`},
		"another key cancels a replay": {"jrj", `!document.querySelector('#confirm-replay').open && document.activeElement === document.querySelector('#rows tr:nth-child(2) a')`},
		"a search cancels a replay":    {"jr/", `!document.querySelector('#confirm-replay').open && document.activeElement === document.querySelector('#q')`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modules := make(chan struct{})
			b := newTab(t, front(t, srv.URL, func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/inspector.js") {
					<-modules
				}
				return false
			}))
			release := sync.OnceFunc(func() { close(modules) })
			t.Cleanup(release) // runs before the server closes
			command(b, page.Navigate, page.NavigateParams{URL: b.base + "/"})
			poll[chromedp.Void](b, `document.readyState !== 'complete' && document.querySelector('#help')`)
			for _, key := range test.keys {
				b.typeKeys(string(key))
				b.run(`new Promise((done) => setTimeout(done, 350))`) // longer than the pause of deliberate keys
			}
			release()
			b.ready()
			b.wait(`document.querySelectorAll('#rows tr').length === 3 && (` + test.want + `)`)
		})
	}
}

// TestKeysAreLoadedBeforeFirstPaint delays keys.js. It checks that the page handles keys as
// soon as it is visible.
func TestKeysAreLoadedBeforeFirstPaint(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Home", `{}`))
	release := make(chan struct{})
	b := newTab(t, front(t, srv.URL, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/keys.js") {
			<-release
		}
		return false
	}))
	t.Cleanup(func() { close(release) })
	command(b, page.Navigate, page.NavigateParams{URL: b.base + "/"})
	poll[chromedp.Void](b, `performance.getEntriesByType('resource').some((e) => e.name.endsWith('/calls.css') && e.responseEnd > 0)`)
	b.run(`new Promise((done) => setTimeout(done, 500))`) // enough time to paint
	assert.Zero(t, eval[int](b, `performance.getEntriesByType('paint').length`))
	release <- struct{}{}
	b.wait(`performance.getEntriesByType('paint').length > 0`)
}

// TestSecondReplayIsRefusedInThePanel presses Replay twice.
func TestSecondReplayIsRefusedInThePanel(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 1`)
	b.click(row(1) + " a")
	b.waitText("#panel .destination", "failed")
	b.click("#panel .destination form button")
	b.wait(`document.querySelectorAll('#panel .attempt').length === 2`)
	b.waitText("#panel .destination .state", "failed")
	const refused = `(document.querySelector("#toast.is-failed")?.textContent ?? "").includes("The call was replayed within the last 10 seconds")`
	attempts := 2
	for { // on a slow machine, 10 seconds can pass before the click, and the call is replayed again
		b.click("#panel .destination form button")
		b.wait(fmt.Sprintf(`%s || document.querySelectorAll("#panel .attempt").length === %d`, refused, attempts+1))
		if b.count("#panel .attempt") == attempts {
			break
		}
		attempts++
		require.Less(t, attempts, 12, "the replay was never refused")
	}
	assert.Equal(t, "Signed Up", b.text("#panel-title"))
	bodies, _ := gone.got()
	assert.Len(t, bodies, attempts)
	b.forgive("409")
}

// TestReplayFormSubmittedTwiceWithoutScripts submits a form again before the first response
// arrives.
func TestReplayFormSubmittedTwiceWithoutScripts(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, collector := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`))
	awaitEnds(t, collector.History(), 1)
	replayed := make(chan struct{})
	var submits atomic.Int32
	b := newTab(t, front(t, srv.URL, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
			return true
		case r.Method == http.MethodPost && submits.Add(1) == 1: // the browser never receives the first response
			assert.NoError(t, r.ParseForm())
			res, err := http.PostForm(srv.URL+r.URL.Path, r.PostForm) //nolint:noctx // ends with the test's server
			if assert.NoError(t, err) {
				assert.NoError(t, res.Body.Close())
			}
			close(replayed)
			<-r.Context().Done()
			return true
		}
		return false
	}))
	b.do(navigate(b.base + "/replay"))
	at := await[[]float64](b, `(() => { const box = document.querySelector('main form button').getBoundingClientRect()
		return [box.x + box.width / 2, box.y + box.height / 2] })()`)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
	<-replayed
	settle(t, collector)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
	b.waitText(".notice", "Replaying 0 calls.")
	settle(t, collector)
	bodies, _ := gone.got()
	assert.Len(t, bodies, 2)
}

// front starts a proxy for a server. It does not forward a request if intercept returns true.
func front(t *testing.T, base string, intercept func(http.ResponseWriter, *http.Request) bool) (url string) {
	t.Helper()
	target, err := neturl.Parse(base)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !intercept(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// pauseTyping waits until the page no longer treats the next letter as typed text.
func (b *tab) pauseTyping() {
	b.t.Helper()
	b.run(`new Promise((done) => setTimeout(done, 400))`) // keys.js requires a pause of 300 ms
}

// typeKeys presses the keys of text one after the other.
func (b *tab) typeKeys(text string) {
	b.t.Helper()
	for _, r := range text {
		b.key(string(r))
	}
}

// TestTypingOnStartPageIsHarmless types a search before the first call. The start page has no
// search field.
func TestTypingOnStartPageIsHarmless(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	b := newTab(t, srv.URL)
	b.open("/")
	b.typeKeys("/order customer")
	b.pauseTyping()
	assert.Empty(t, b.search())
	assert.Contains(t, b.text("#first"), "Waiting for the first call")
	post(t, srv.URL, "web", track("m1", "ada", "Home", `{}`))
	b.waitText(row(1), "Home")
	b.typeKeys("/order")
	assert.Equal(t, "order", b.search())
}
