package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// shop starts a collector with four calls. One of the calls has failed.
func shop(t *testing.T) *tab {
	t.Helper()
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusBadRequest)
	srv, _ := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "web-key"}, {Name: "ios", WriteKey: "ios-key"}},
		Destinations: []tracking.Destination{to("warehouse", good.URL, "s3cret"), to("crm", gone.URL, "", "ios")},
	}, "")
	post(t, srv.URL, "web-key", track("m1", "ada", "Signed Up", `{"plan":"Pro","seats":3}`), track("m2", "grace", "Signed Up", `{"plan":"Team"}`),
		`{"type":"page","messageId":"m3","userId":"ada","name":"Pricing"}`)
	post(t, srv.URL, "ios-key", track("m4", "ken", "Order Completed", `{"total":129.50}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-delivered').length === 4 && document.querySelectorAll('#rows .is-failed').length === 1`)
	return b
}

func (b *tab) waitRows(n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelectorAll('#rows tr').length === %d`, n))
}

// waitSuggested waits for a suggestion.
func (b *tab) waitSuggested(text string) {
	b.t.Helper()
	b.waitText(`#suggestions[aria-busy="false"]:not([hidden])`, text)
}

func (b *tab) search() string { return eval[string](b, `document.querySelector('#q').value`) }

// key sends key events like a keyboard. Text is not inserted if a script prevents it.
func (b *tab) key(text string) {
	b.t.Helper()
	for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		params := input.DispatchKeyEventParams{Type: typ, Key: text, Text: text}
		if text == kb.Enter {
			params.Key, params.WindowsVirtualKeyCode = "Enter", 13
		}
		command(b, input.DispatchKeyEvent, params)
	}
}

func TestRowsShowPropertiesResponsesAndAge(t *testing.T) {
	t.Parallel()
	b := shop(t)
	assert.Contains(t, b.text(row(4)+" .preview"), "plan: Pro seats: 3")
	assert.Contains(t, b.text(row(1)+" .is-failed"), "crm 400")
	assert.Regexp(t, `^\d+ (s|min)$`, b.text(row(1)+" .rel"))
	assert.Contains(t, b.text(".rows .c-time"), "(UTC)")
	before := b.text(row(1) + " .rel")
	b.wait(`document.querySelector(` + quote(row(1)+" .rel") + `).textContent !== ` + quote(before))
}

func TestBackUndoesASearch(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.set("#q", "type:track")
	b.waitRows(3)
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Order Completed")
	b.set("#q", "type:track user:ada")
	b.waitRows(1)
	assert.Contains(t, b.text("#panel h2"), "Order Completed", "the call stays open")
	b.run(`history.back()`)
	b.waitRows(3)
	assert.Equal(t, "type:track", b.search())
	assert.Equal(t, 1, b.count("#panel h2"))
	b.run(`history.back()`)
	b.wait(`document.querySelector('#panel').hidden`)
	b.waitRows(3)
	b.run(`history.back()`)
	b.waitRows(4)
	assert.Empty(t, b.search())
	b.run(`history.forward()`)
	b.waitRows(3)
	assert.Equal(t, "type:track", b.text("#conditions .condition bdi"))
}

func TestRemoveSearchConditions(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.open("/?type=track&user=ada&q=prop.plan:*")
	assert.Equal(t, "prop.plan:* type:track user:ada", b.search(), "addresses of before lead to the same list")
	b.waitRows(1)
	assert.Equal(t, 3, b.count("#conditions .condition"))
	b.click("#conditions .condition:nth-of-type(3)")
	b.waitRows(2)
	assert.Equal(t, "prop.plan:* type:track", b.search())
	b.wait(`document.activeElement.id === 'q'`) // the focus moves because the focused element was removed
	b.click("#conditions .condition:nth-of-type(1)")
	b.waitRows(3)
	b.click("#clear")
	b.waitRows(4)
}

func TestInvalidSearchShowsError(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.set("#q", "evnt:x")
	b.waitText("#search-problem", `Character 1: unknown field "evnt". Did you mean event:?`)
	assert.Equal(t, 4, b.count("#rows tr"), "the list stays")
	b.set("#q", "event:order")
	b.waitRows(1)
	assert.Empty(t, b.text("#search-problem"))
	b.do(navigate(b.base + "/?q=status:broken"))
	b.waitText("#search-problem", `unknown status "broken"`)
	assert.Contains(t, b.text("#nothing"), "The search is invalid.")
	b.forgive("422")
}

func TestSearchSuggestionsByKeyboard(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.key("/")
	b.wait(`document.activeElement.id === 'q'`)
	b.insert("ev")
	b.waitSuggested("event:")
	assert.Equal(t, "true", eval[string](b, `document.querySelector('#q').getAttribute('aria-expanded')`))
	b.press(kb.ArrowDown)
	b.key(kb.Enter)
	b.wait(`document.querySelector('#q').value === 'event:'`)
	b.waitSuggested(`event:"Signed Up"`)
	b.shoot("suggestions")
	assert.Empty(t, b.text("#search-problem"), "what is being written is not wrong yet")
	b.insert("si")
	b.waitSuggested(`event:"Signed Up"`)
	assert.Equal(t, 1, b.count("#suggestions li"))
	b.press(kb.ArrowDown)
	b.key(kb.Enter)
	b.waitRows(2)
	assert.Equal(t, `event:"Signed Up" `, b.search())
	b.insert("prop.pl")
	b.waitSuggested("prop.plan:")
	b.press(kb.ArrowUp)
	b.key(kb.Enter)
	b.waitSuggested("prop.plan:Team")
	b.press(kb.Escape)
	b.wait(`document.querySelector('#suggestions').hidden`)
	assert.Equal(t, "false", eval[string](b, `document.querySelector('#q').getAttribute('aria-expanded')`))
	b.press("Pro" + kb.Enter)
	b.waitRows(1)
}

// TestSuggestionsEndWhenTheCursorMoves checks that no suggestion replaces a part of a word.
func TestSuggestionsEndWhenTheCursorMoves(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.key("/")
	for _, move := range []func(){func() { b.press(kb.ArrowLeft) }, func() { b.click("#q") }} {
		b.set("#q", "us")
		b.waitSuggested("user:")
		move()
		b.wait(`document.querySelector('#suggestions').hidden`)
	}
}

func TestSelectedSuggestionSurvivesLateResponse(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.key("/")
	b.insert("e")
	b.waitSuggested("event:")
	b.run(`const load = fetch
		window.fetch = async (...what) => {
			if (String(what[0]).startsWith('/suggest')) await new Promise((done) => { window.answer = done })
			return load(...what)
		}`)
	b.insert("v")
	b.wait(`window.answer`)
	b.press(kb.ArrowDown)
	chosen := b.text(`#suggestions [aria-selected="true"]`)
	b.run(`window.answer()`)
	b.wait(`document.querySelector('#suggestions').ariaBusy === 'false'`)
	assert.Contains(t, chosen, "event:")
	assert.Equal(t, chosen, b.text(`#suggestions [aria-selected="true"]`))
	b.key(kb.Enter)
	b.wait(`document.querySelector('#q').value === 'event:'`)
}

func TestTimeRanges(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.click("#range summary")
	b.click(`#ranges a[href*="15m"]`)
	b.wait(`location.search === '?q=since%3A15m'`)
	b.waitText("#range-label", "Last 15 minutes")
	b.waitRows(4)
	b.click("#range summary")
	b.run(`document.querySelector('#between [name=until]').value = '2026-01-31T12:00:00'`)
	b.click("#between button")
	b.waitRows(0)
	b.waitText("#conditions", "until:2026-01-31T12:00:00")
	b.click("#range summary")
	b.click(`#ranges li:first-child a`)
	b.waitRows(4)
	b.waitText("#range-label", "Any time")
}

func TestKeyboardShortcuts(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.press("?")
	b.waitText("#help:popover-open", "replay failed call (asks first)")
	b.shoot("help")
	b.press(kb.Escape)
	b.wait(`!document.querySelector('#help:popover-open')`)
	b.press("jj")
	b.wait(`document.activeElement.closest('tr')?.matches(':nth-child(2)')`)
	b.press("k" + kb.Enter)
	b.waitText("#panel h2", "Order Completed")
	b.run(`window.replays = 0; const plain = fetch
		fetch = (url, ...rest) => { if (String(url).endsWith('/replay')) replays++; return plain(url, ...rest) }; undefined`)
	b.press("r")
	b.waitText("#confirm-replay[open]", "Replay this call to crm?")
	b.shoot("confirm-replay")
	b.typeKeys("rr: order customer") // these keys do not confirm the replay
	assert.True(t, eval[bool](b, `document.querySelector('#confirm-replay').open`))
	b.press(kb.Escape)
	b.wait(`!document.querySelector('#confirm-replay').open && !document.querySelector('#panel').hidden`)
	assert.Zero(t, eval[int](b, `replays`))
	b.pauseTyping()
	b.press("r")
	b.wait(`document.querySelector('#confirm-replay').open`)
	b.press(kb.Enter)
	b.waitText("#toast", "crm: failed 400")
	assert.Equal(t, 1, eval[int](b, `replays`))
	b.wait(`document.querySelectorAll('#panel .attempt.is-failed').length === 2`)
	b.run(`window.copied = ''; navigator.clipboard.writeText = async (text) => { window.copied = text }`)
	b.press("c")
	b.wait(`window.copied.startsWith('curl ') && window.copied.includes('Order Completed')`)
	b.waitText("#toast", "Copied as curl.")
	b.press("j")
	b.waitText("#panel h2", "Pricing")
	b.press("r")
	b.waitText("#toast", "not failed at any destination")
	b.press(kb.Escape)
	b.wait(`document.querySelector('#panel').hidden && document.activeElement.closest('tr')?.matches(':nth-child(2)')`)

	// Shortcuts can be disabled permanently.
	b.press("?")
	b.click("#use-keys")
	b.press(kb.Escape)
	b.open("/")
	b.press("?")
	b.key("/")
	assert.Equal(t, []bool{false, false}, eval[[]bool](b, `[document.querySelector('#help:popover-open') !== null, document.activeElement.id === 'q']`))
}

func TestCopyAsCode(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.run(`window.copied = ''; navigator.clipboard.writeText = async (text) => { window.copied = text }`)
	b.set("#q", "event:order")
	b.waitRows(1)
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Order Completed")
	for form, want := range map[string]string{"curl": "curl -g -u ios-key:", "go": "client.Track(", "node": "analytics.track(", "go-test": "srv.Expect("} {
		b.run(`window.copied = ''; document.querySelector('.copy-as').open = true`)
		b.click(`.copy-as [href$="/as/` + form + `"]`)
		b.wait(`window.copied.includes(` + quote(want) + `)`)
		assert.Contains(t, eval[string](b, `window.copied`), "129.50", form)
	}
	b.run(`document.querySelector('.copy-as').open = true`)
	b.click(`[data-copy-link]`)
	b.wait(`window.copied.startsWith(location.origin + '/?call=') && new URL(window.copied).searchParams.get('q') === 'event:order'`)
	b.click(`.copy-as [href*="/as/signed"]`)
	b.wait(`window.copied.includes('valid signature') && window.copied.includes('X-Signature: ')`)
	assert.Equal(t, 1, b.count(`#panel [href*="/as/signed"]`), "crm has no secret")
	link := eval[string](b, `document.querySelector('[data-copy-link]').href`)
	b.do(navigate(link))
	b.waitText("#panel h2", "Order Completed")
	assert.Equal(t, "event:order", b.search())
	b.waitRows(1)
}

func TestPanelLinks(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Order Completed")
	assert.Equal(t, []string{"crm", "warehouse"}, eval[[]string](b, `[...document.querySelectorAll('#panel .destination h4 a')].map((a) => a.textContent)`))
	assert.Equal(t, "/event?name=Order+Completed&source=ios&type=track", eval[string](b, `document.querySelector('#panel h2 a').getAttribute('href')`))
	b.click(`#panel .facts a[href*="source"]`)
	b.wait(`new URLSearchParams(location.search).get('q') === 'source:=ios'`)
	b.click(`#panel .facts a[href^="/user"]`)
	b.waitText("main", "ken")
	b.wait(`location.pathname === '/user'`)
}

// serveHeld starts a collector with an inspector. The inspector waits for a value on answer
// before it sends a fragment.
func serveHeld(t *testing.T) (srv *httptest.Server, answer chan<- struct{}) {
	t.Helper()
	collector, err := engine.New(engine.Config{AnyWriteKey: true})
	require.NoError(t, err)
	guard, err := access.NewGuard(access.GuardConfig{Loopback: true})
	require.NoError(t, err)
	pages := inspector.New(collector, inspector.Config{Guard: guard})
	told := make(chan struct{})
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fragment") != "" && !strings.HasPrefix(r.URL.Path, "/suggest") {
			select {
			case <-told:
			case <-r.Context().Done():
			}
		}
		pages.Wrap(collector).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		pages.Close()
		srv.CloseClientConnections()
		srv.Close()
		_ = collector.Close()
	})
	return srv, told
}

// TestLiveSectionPausesWhileFocused also covers requests that started before the element was
// focused.
func TestLiveSectionPausesWhileFocused(t *testing.T) {
	t.Parallel()
	srv, answer := serveHeld(t)
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`))
	b := newTab(t, srv.URL)
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.asked = 0; window.answered = 0
		const load = fetch
		window.fetch = async (...what) => {
			window.asked++
			const answer = await load(...what), text = await answer.text()
			setTimeout(() => window.answered++) // after the response is shown
			return new Response(text, { status: answer.status })
		}`})
	b.open("/events")
	b.wait(`window.asked > 0`)
	b.run(`document.querySelector('.events a').focus()`)
	answer <- struct{}{}
	b.wait(`window.answered === 1`)
	assert.True(t, eval[bool](b, `document.activeElement.matches('.events a')`))
	b.run(`window.before = document.activeElement; document.activeElement.blur()`)
	answer <- struct{}{}
	b.wait(`!window.before.isConnected`)
}

func TestClicksHaveImmediateEffect(t *testing.T) {
	t.Parallel()
	srv, answer := serveHeld(t)
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.waitRows(1)
	// A click has an effect before the browser paints the next frame.
	assert.True(t, eval[bool](b, `(() => { document.querySelector('#rows a').click()
		return document.querySelector('#rows tr').classList.contains('is-open') && document.querySelector('#panel').classList.contains('is-busy') })()`))
	answer <- struct{}{}
	b.wait(`!document.querySelector('#panel').classList.contains('is-busy')`)
	b.waitText("#panel h2", "Signed Up")
	assert.True(t, eval[bool](b, `(() => { document.querySelector('#own').click(); return document.querySelector('#list').classList.contains('is-busy') })()`))
	answer <- struct{}{}
	b.wait(`!document.querySelector('#list').classList.contains('is-busy')`)
	b.waitRows(1)
	assert.Equal(t, "-is:own", b.search())
}

func TestConnectionLossIsReported(t *testing.T) {
	t.Parallel()
	start := func(address string) (kill func()) {
		collector, err := engine.New(engine.Config{AnyWriteKey: true})
		require.NoError(t, err)
		guard, err := access.NewGuard(access.GuardConfig{Loopback: true})
		require.NoError(t, err)
		pages := inspector.New(collector, inspector.Config{Guard: guard})
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		srv := &httptest.Server{Listener: listener, Config: access.NewHTTPServer(pages.Wrap(collector))}
		srv.Start()
		return func() {
			pages.Close()
			srv.CloseClientConnections()
			srv.Close()
			_ = collector.Close()
		}
	}
	address, err := harness.FreeAddress() // no other server uses this port while the collector is stopped
	require.NoError(t, err)
	kill := start(address)
	post(t, "http://"+address, "web", track("m1", "ada", "Before", `{}`))
	b := newTab(t, "http://"+address)
	b.open("/")
	b.waitText(row(1), "Before")
	kill()
	b.waitText("#gone", "The collector has not responded since ")
	b.waitText("#gone", " attempts)") // wait for a second attempt
	assert.Contains(t, b.text("#live"), "Not live")
	b.shoot("gone")
	b.click(row(1) + " a")
	b.waitText("#toast", "The collector did not respond.")

	defer start(address)()
	b.waitText("#gone.is-back", "The collector has responded again since ")
	b.wait(`document.querySelector('#live').dataset.state === 'live'`)
	post(t, "http://"+address, "web", track("m2", "ada", "After", `{}`))
	b.waitText(row(1), "After")
	b.waitRows(1)
	b.shoot("back")
	b.forgive("net::ERR_")
}

func TestChartShowsLowRatesNextToBurst(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	b := newTab(t, srv.URL)
	post(t, srv.URL, "web", track("m0", "ada", "First", `{}`))
	b.open("/")
	// Measure in one step, because the page redraws when data arrives.
	got := eval[struct {
		Heights   []float64
		Top, Half string
	}](b, `import(new URL('chart.js', document.querySelector('link[rel=stylesheet]').href)).then((chart) => {
		const now = Math.floor(Date.now() / 3000) * 3 + 3000
		chart.update(now, [[now - 30, 3, 0, 0, 0, 0, 0, 0], [now - 15, 3000, 0, 0, 0, 0, 0, 0]])
		const text = (label) => document.querySelector(label).textContent.trim()
		return { top: text('.top-label'), half: text('.half-label'), heights: document.querySelector('.chart path.c-accepted')
			.getAttribute('d').split('M').slice(1).map((bar) => Number(bar.split('v')[1].split('h')[0])) }
	})`)
	require.Len(t, got.Heights, 2)
	assert.InDelta(t, 50, got.Heights[1], 0.1, "the burst is as high as the axis")
	assert.InDelta(t, 50/31.62, got.Heights[0], 0.1, "a thousandth of it is a thirtieth as high")
	assert.Equal(t, "1,000/s", got.Top)
	assert.Equal(t, "250/s", got.Half, "half of the height")
}

func TestSearchWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	b := shop(t)
	page := func(path string) string {
		res, err := http.Get(b.base + path) //nolint:noctx // ends with the test's server
		require.NoError(t, err)
		defer res.Body.Close()
		var out strings.Builder
		_, err = fmt.Fprint(&out, res.StatusCode, " ")
		require.NoError(t, err)
		body := make([]byte, 1<<20)
		for {
			n, err := res.Body.Read(body)
			out.Write(body[:n])
			if err != nil {
				return out.String()
			}
		}
	}
	found := page("/?q=prop.seats:%3E2")
	assert.Contains(t, found, `value="prop.seats:&gt;2"`)
	assert.Equal(t, 1, strings.Count(found, `<tr role="row" class="row`))
	assert.Contains(t, found, `<a class="condition" href="/"`)
	assert.Contains(t, page("/?q=prop.plan:*&until=2026-01-31T12:00"), "No matching calls.")
	wrong := page("/?q=user:")
	assert.Contains(t, wrong, "422 ")
	assert.Contains(t, wrong, "Character 1: <bdi>user: has no value</bdi>.")
}

// TestEmptySearchForRejectedCallsNamesItsStart searches before the first call, as after a restart.
func TestEmptySearchForRejectedCallsNamesItsStart(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	b := newTab(t, srv.URL)
	b.open("/")
	b.run(`document.getElementById('q').value = 'status:rejected'; document.getElementById('filters').requestSubmit()`)
	b.waitText("#list .since", "Rejected calls since 20")
	b.wait(`document.querySelector('#list .since').checkVisibility()`)
	assert.Zero(t, b.count("#first"))
	b.shoot("rejected-since")
	post(t, srv.URL, "web", `{"type":"track","userId":"ada"}`)
	b.waitText("#rows", "event_not_defined")
}

// TestBackRestoresSearchAndCall goes back to a search with an open call. It delays the list until the
// panel is complete.
func TestBackRestoresSearchAndCall(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.set("#q", "type:track")
	b.waitRows(3)
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Order Completed")
	b.wait(`location.search.includes('call=')`)
	before := eval[string](b, `location.search`)
	b.set("#q", "type:track user:ada")
	b.waitRows(1)
	b.wait(`location.search.includes('ada')`)
	b.run(`document.activeElement.blur()`)
	b.press(kb.Escape)
	b.wait(`document.querySelector('#panel').hidden`)
	b.run(`const load = fetch
		let call = null
		window.fetch = async (...what) => {
			if (String(what[0]).startsWith('/?')) {
				await call
				while (document.querySelector('#panel').classList.contains('is-busy')) await new Promise((done) => setTimeout(done))
			}
			const answer = load(...what)
			if (String(what[0]).startsWith('/calls/')) call = answer
			return answer
		}
		undefined`)
	b.run(`history.back()`)
	b.waitRows(3)
	b.waitText("#panel h2", "Order Completed")
	b.wait(`!document.querySelector('#panel').classList.contains('is-busy')`)
	assert.Equal(t, before, eval[string](b, `location.search`))
}

// TestCallOpenedDuringBackStaysOpen opens a call while the list of the previous search is loading.
func TestCallOpenedDuringBackStaysOpen(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.set("#q", "type:track")
	b.waitRows(3)
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Order Completed")
	b.wait(`location.search.includes('call=')`)
	b.set("#q", "type:track user:ada")
	b.waitRows(1)
	b.wait(`location.search.includes('ada')`)
	b.run(`document.activeElement.blur()`)
	b.press(kb.Escape)
	b.wait(`document.querySelector('#panel').hidden`)
	b.run(`const load = fetch
		const loaded = new Promise((done) => { window.loadList = done })
		window.fetch = async (...what) => {
			if (String(what[0]).startsWith('/?')) {
				window.isLoading = true
				await loaded
			}
			return load(...what)
		}
		undefined`)
	b.run(`history.back()`)
	b.wait(`window.isLoading`)
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Signed Up")
	b.run(`loadList()`)
	b.waitRows(3)
	b.wait(`!document.querySelector('#panel').classList.contains('is-busy')`)
	assert.Equal(t, "Signed Up", b.text("#panel h2"))
}
