package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// row returns the selector of the n-th row.
func row(n int) string { return fmt.Sprintf("#rows > tr:nth-child(%d)", n) }

func TestFirstRunSnippetSendsFirstCall(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "shop", WriteKey: "wk-7f3a"}}}, "")
	b := newTab(t, srv.URL)
	b.open("/")
	b.shoot("first-run")
	assert.Contains(t, b.text("#first"), "Waiting for the first call")
	assert.Contains(t, b.text("#first .address"), srv.URL)
	assert.Contains(t, b.text("#first .address"), "wk-7f3a")
	b.click("#tab-start-node")
	b.wait(`document.querySelector('#code-start-node').checkVisibility() && !document.querySelector('#code-start-curl').checkVisibility()`)
	assert.Contains(t, b.text("#code-start-node"), fmt.Sprintf(`host: "%s"`, srv.URL))

	// Run the copied program while the page is open.
	program := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(program, []byte(eval[string](b, `document.querySelector('#code-start-go > .code:last-child code').textContent`)), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "run", program).CombinedOutput()
	require.NoError(t, err, string(out))
	b.waitText(row(1), "Signed Up")
	b.wait(`document.querySelector('#first') === null && document.querySelector('#filters').checkVisibility()`)
	assert.Contains(t, b.text(row(1)), "shop")
	b.waitText("#count", "1 call")
}

func TestFirstRunSnippets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		snippet, program string
		args             []string
		npm              string // required npm package
	}{
		{"curl", "sh", nil, ""},
		{"node", "node", []string{"--input-type=module"}, "@segment/analytics-node/package.json"},
	} {
		t.Run(test.snippet, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(test.snippet); err != nil {
				t.Skip(err)
			}
			if test.npm != "" {
				npmFile(t, test.npm)
			}
			srv, _ := serve(t, engine.Config{}, "")
			b := newTab(t, srv.URL)
			b.open("/")
			assert.Contains(t, b.text("#first"), "Any write key is accepted")
			program := exec.CommandContext(t.Context(), test.program, test.args...)
			program.Stdin = strings.NewReader(eval[string](b, `document.querySelector('#code-start-`+test.snippet+` > .code:last-child code').textContent`))
			out, err := program.CombinedOutput()
			require.NoError(t, err, string(out))
			b.waitText(row(1), "Signed Up")
		})
	}
}

func TestLiveListFiltersAndPauses(t *testing.T) {
	t.Parallel()
	good := newReceiver(t, http.StatusOK)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", good.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{"plan":"Pro"}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.waitText(row(1), "Signed Up")
	post(t, srv.URL, "ios", `{"type":"page","anonymousId":"anon-1","messageId":"m2","name":"Pricing"}`,
		`{"type":"identify","userId":"grace","messageId":"m3","traits":{"city":"Zürich"}}`)
	b.waitText(row(1), "grace")
	b.waitText(row(2), "Pricing")
	b.wait(`document.querySelectorAll('#rows .chip.is-delivered').length === 3`)
	b.waitText("#count", "3 calls")

	for search, rows := range map[string]int{
		"type:page": 1, "status:delivered": 3, "status:failed": 0, "event:PRIC": 1, "user:anon": 1, "pro": 1, "zürich": 1, "prop.plan:pro": 1, "-traits.city:*": 2, `"nothing has this"`: 0,
	} {
		b.set("#q", search)
		b.wait(fmt.Sprintf(`document.querySelectorAll('#rows tr').length === %d && new URLSearchParams(location.search).get('q') === %s`, rows, quote(search)))
		if rows < 3 {
			b.waitText("#count", fmt.Sprintf("%d hidden by search", 3-rows))
		}
		if rows == 0 {
			assert.Contains(t, b.text("#nothing"), "No matching calls", search)
		}
		b.run(`document.activeElement.blur()`) // suggestions may cover the link
		b.click("#clear")
		b.wait(`document.querySelectorAll('#rows tr').length === 3 && location.search === ''`)
	}

	// Calls that arrive during a search are counted. The list shows those that match.
	b.set("#q", "type:track")
	b.waitText("#count", "1 of 3 calls matches")
	post(t, srv.URL, "web", track("m4", "ada", "Order Completed", `{}`), `{"type":"page","userId":"ada","messageId":"m5","name":"Cart"}`)
	b.waitText(row(1), "Order Completed")
	b.waitText("#count", "2 of 5 calls match")
	b.waitText("#count", "3 hidden by search")
	assert.Equal(t, 2, b.count("#rows tr"))
	b.shoot("filter")
	b.click("#clear")
	b.wait(`document.querySelectorAll('#rows tr').length === 5`)

	b.click("#pause")
	post(t, srv.URL, "web", track("m6", "ada", "While Paused", `{}`))
	b.waitText("#fresh", "1 new call")
	assert.NotContains(t, b.text("#rows"), "While Paused")
	assert.Equal(t, "Paused", b.text("#live"))
	b.shoot("paused")
	b.click("#fresh")
	b.waitText(row(1), "While Paused")
	b.wait(`document.querySelector('#live').dataset.state === 'live'`)
	b.waitText("#count", "6 calls")
}

// A refresh of the list must not undo what the user does at the same time.
func TestClearWorksDuringARefresh(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		held string // requests that are delayed until they are released
		rows int
		act  func(b *tab, collector *engine.Collector)
	}{
		"the list is loaded again while the mouse button is down": {"", 2, func(b *tab, _ *engine.Collector) {
			at := b.center("#clear")
			b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
			b.run(`window.before = document.querySelector('#rows tr'); document.querySelector('#q').form.requestSubmit()`)
			b.wait(`!document.contains(window.before) && document.querySelector('#rows tr')`)
			b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
		}},
		"the stream resets the list while all calls are loading": {"/?", 3, func(b *tab, collector *engine.Collector) {
			b.click("#clear")
			b.wait(`window.waiting.length === 1`)
			collector.History().Clear()
			for i := range 3 {
				post(b.t, b.base, "web", track(fmt.Sprint("after ", i), "ada", "Signed In", `{}`))
			}
			b.waitText("[data-sum=accepted]", "5") // the reset arrived before
			b.run(`window.waiting.forEach((release) => release())`)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, collector := serve(t, engine.Config{}, "")
			post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`), track("m2", "ada", "Order Completed", `{}`))
			b := newTab(t, srv.URL)
			b.open("/?q=event:signed")
			b.wait(`document.querySelectorAll('#rows tr').length === 1`)
			b.run(`window.waiting = []; const get = window.fetch
				window.fetch = async (url, options) => {
					if ('` + test.held + `' && url.startsWith('` + test.held + `')) await new Promise((release) => window.waiting.push(release))
					return get(url, options)
				}`)
			test.act(b, collector)
			b.wait(fmt.Sprintf(`document.querySelectorAll('#rows tr').length === %d && location.search === ''`, test.rows))
		})
	}
}

func TestPanelShowsCallDetails(t *testing.T) {
	t.Parallel()
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}, {Name: "ios", WriteKey: "ios-key"}},
		Destinations: []tracking.Destination{
			to("warehouse", good.URL, "s3cret"), to("crm", gone.URL, ""), to("ios only", good.URL, "", "ios"),
		},
	}, "")
	sent := time.Now().Add(-95 * time.Minute).UTC() // the page shows the difference in minutes
	call := fmt.Sprintf(`{"type":"track","messageId":"m1","userId":"ada","event":"Order Completed","timestamp":%q,
		"properties":{"orderId":12345678901234567890,"ratio":1.10,"list":[1,{"unit price":9.5}]}}`, sent.Format(time.RFC3339Nano))
	for range 2 {
		require.Equal(t, http.StatusOK, postTo(t, srv.URL+"/v1/batch", "web-key", fmt.Sprintf(`{"sentAt":%q,"batch":[%s]}`, sent.Format(time.RFC3339Nano), call)))
	}
	post(t, srv.URL, "web-key", `{"type":"track","messageId":"m2","userId":"ada","event":"Only CRM","integrations":{"All":false}}`)

	b := newTab(t, srv.URL)
	b.open("/")
	b.waitText(row(2), "×2")
	b.waitText(row(2), "clock +1h35m")
	b.wait(`document.querySelector('` + row(2) + ` .chip.is-failed') && document.querySelector('` + row(2) + ` .others.is-delivered')`)
	b.click(row(2) + " a")
	b.waitText("#panel h2", "Order Completed")
	panel := b.text("#panel")
	assert.Contains(t, panel, `"orderId": 12345678901234567890`, "integers keep their digits")
	assert.Contains(t, panel, `"ratio": 1.10`, "as they came")
	assert.Contains(t, panel, "timestamp corrected by +1h35m")
	assert.Contains(t, panel, "1 duplicate dropped")
	assert.Contains(t, panel, "the destination is not connected to the source")
	assert.Contains(t, panel, "404 (Not Found)")
	b.run(`document.querySelectorAll('#panel details').forEach((d) => { d.open = true })`)
	assert.Contains(t, b.text("#panel"), `{"answer": 404, "from": "the receiver"}`)
	assert.Contains(t, b.text("#panel"), "X-Signature")
	assert.Contains(t, b.text("#panel"), `"orderId":12345678901234567000`, "what JSON.stringify leaves of it")
	b.shoot("call")

	// Use the keyboard to move in the list, close the call and go back in the history.
	b.do(chromedp.Focus(row(2)+" a"), chromedp.KeyEvent(kb.ArrowUp))
	b.waitText("#panel h2", "Only CRM")
	assert.Contains(t, b.text("#panel"), "integrations.All is false and Webhooks is not enabled by name")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.wait(`document.querySelector('#panel').hidden && document.activeElement.textContent === 'Only CRM'`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.waitText("#panel h2", "Only CRM")
	b.do(chromedp.NavigateBack())
	b.wait(`document.querySelector('#panel').hidden`)

	// The URL of a call opens it.
	b.click(row(2) + " a")
	b.wait(`location.search.startsWith('?call=')`)
	b.open(strings.TrimPrefix(eval[string](b, `location.href`), srv.URL))
	assert.Contains(t, b.text("#panel h2"), "Order Completed")
	assert.Equal(t, 1, b.count("#rows .is-open"))
	b.open("/?call=00112233445566778899aabbccddeeff")
	assert.Contains(t, b.text("#panel"), "has expired")
}

func TestRejectedCallShowsErrorAndFix(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}}, "")
	post(t, srv.URL, "web-key",
		track("good", "ada", "Good", `{}`),
		`{"type":"track","userId":"ada","properties":{"a":1}}`,
		`{"type":"identify","userId":"ada","traits":[1,2]}`)
	require.Equal(t, http.StatusUnauthorized, postTo(t, srv.URL+"/v1/batch", "wrong-key", `{"batch":[]}`))
	b := newTab(t, srv.URL)
	b.open("/")
	assert.Equal(t, 4, b.count("#rows tr"), "rejected ones beside accepted ones")
	b.set("#q", "status:rejected")
	b.wait(`document.querySelectorAll('#rows tr').length === 3`)

	b.click(`#rows tr:has([title*="traits"]) a`)
	b.waitText("#panel .wrong", "traits_not_object")
	assert.Contains(t, b.text("#panel .wrong"), "How to fix: Make traits an object or omit it.")
	assert.Contains(t, b.text("#panel .is-wrong"), `"traits"`)
	b.shoot("rejected")

	b.click(`#rows tr:has([title*="event"]) a`)
	b.waitText("#panel .wrong", "event_not_defined")
	assert.Contains(t, b.text("#panel .is-missing"), `"event"`)

	b.click(`#rows tr.k-refused a`)
	b.waitText("#panel .wrong", "unknown_write_key")
	assert.Contains(t, b.text("#panel"), "status 401")
	assert.NotContains(t, eval[string](b, `document.documentElement.outerHTML`), "wrong-key")
}

func TestFailedCallIsReplayedAndThenDelivered(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", hook.URL, "s3cret")}}, "")
	for i := range 5 {
		post(t, srv.URL, "web", track(fmt.Sprint("m", i), "ada", fmt.Sprint("Event ", i), `{}`))
	}
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .chip.is-failed').length === 5`)
	b.click(row(1) + " a")
	b.waitText("#panel .destination", "failed")
	b.shoot("failed")

	hook.status.Store(http.StatusOK)
	b.click("#panel .destination button")
	b.waitText("#toast", "hook: delivered")
	b.waitText("#panel .destination .state", "delivered")
	b.wait(`document.querySelector('` + row(1) + ` .chip.is-delivered') !== null`)
	assert.Equal(t, 2, b.count("#panel .attempt"))

	// Replay the other calls. The confirmation page shows their number.
	b.set("#q", "status:failed")
	b.wait(`document.querySelectorAll('#rows tr').length === 4`)
	b.run(`document.querySelector('#replay-all').click()`) // the link may move while counts arrive
	b.waitText("h1", "Replay")
	b.ready()
	assert.Contains(t, b.text("main"), "4 calls match status:failed.")
	assert.Equal(t, "Replay 4 calls", b.text("main form button"))
	b.shoot("replay")
	b.click("main form button")
	b.waitText(".notice", "Replaying 4 calls.")
	b.open("/?notice=4+calls+are+being+replayed.")
	assert.Zero(t, b.count(".notice"), "it is said once, and no link makes one up")
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .chip.is-delivered').length === 5`)
	bodies, _ := hook.got()
	assert.Len(t, bodies, 10)
}

// TestLateReplayResponseKeepsNewerUpdates checks that a late response does not undo newer updates.
func TestLateReplayResponseKeepsNewerUpdates(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	refuse := make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) > 1 {
			select {
			case <-refuse:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(hook.Close)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", hook.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 1`)
	b.click(row(1) + " a")
	b.waitText("#panel .destination", "failed")
	replay := func() {
		b.run(`window.release = null; window.load ??= fetch
			window.fetch = async (...what) => {
				const answer = await window.load(...what)
				if (what[1]?.method === 'POST') await new Promise((release) => { window.release = release })
				return answer
			}`)
		b.click("#panel .destination button")
		b.wait(`window.release !== null`)
	}

	replay()
	close(refuse)
	b.wait(`document.querySelectorAll('#panel .attempt').length === 2`)
	b.run(`window.release()`)
	b.waitText("#toast", "hook: failed 404")
	assert.Equal(t, 2, b.count("#panel .attempt"), "the answer tells of one")

	replay() // the response has status 409
	b.forgive("409")
	b.press(kb.Escape)
	b.wait(`document.querySelector('#panel').hidden`)
	b.run(`window.release()`)
	b.wait(`!document.querySelector('#panel').classList.contains('is-busy')`)
	assert.True(t, eval[bool](b, `document.querySelector('#panel').hidden`), "a call that was closed stays so")
}

func TestScannerRequestsAreGrouped(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}}, "")
	post(t, srv.URL, "web-key", track("m1", "ada", "Signed Up", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	for n := range 30 {
		res, err := sender.Get(fmt.Sprintf("%s/v1/wp-%d.php", srv.URL, n))
		require.NoError(t, err)
		res.Body.Close()
	}
	b.waitText(row(1), "GET /v1/wp-29.php×30")
	assert.Equal(t, 2, b.count("#rows tr"))
	b.click(row(1) + " a")
	b.waitText("#panel .wrong", "not_found")
	assert.Contains(t, b.text("#panel h2"), "GET /v1/wp-29.php")

	// A rejected single call has the type in its URL path.
	b.press(kb.Escape)
	b.point("#count")
	b.run(`document.activeElement.blur()`)
	require.Equal(t, http.StatusOK, postTo(t, srv.URL+"/v1/track", "web-key", `{"userId":"ada"}`))
	b.waitText(row(1)+" .type", "track")
	b.waitText(row(1), "event_not_defined")
}

func TestSyntheticCallsCanBeHidden(t *testing.T) {
	t.Parallel()
	good := newReceiver(t, http.StatusOK)
	srv, collector := serve(t, engine.Config{
		History: history.New(10), Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{to("hook", good.URL, "")},
	}, "")
	post(t, srv.URL, "web-key", track("m1", "ada", "Signed Up", `{}`))
	userIDs := make([]string, 50)
	for i := range userIDs {
		userIDs[i] = fmt.Sprint("user-", i)
	}
	sendList(t, collector, users.SyncRequest{Kind: users.KindAudience, Name: "Large", Source: "web", Destination: "hook", List: strings.NewReader(strings.Join(userIDs, "\n"))})
	b := newTab(t, srv.URL)
	b.open("/")
	b.waitText("#count", "11 calls")
	assert.Contains(t, b.text(row(1)), "synthetic")
	assert.Contains(t, b.text(row(11)), "Signed Up", "they have pushed no other out")
	b.click("#own")
	b.wait(`document.querySelectorAll('#rows tr').length === 1 && location.search === '?q=-is%3Aown'`)
	b.waitText("#count", "10 hidden by search")
	post(t, srv.URL, "web-key", track("m2", "ada", "Signed In", `{}`))
	b.waitText(row(1), "Signed In")
	b.open("/?synthetic=hide")
	assert.Contains(t, b.text("#conditions .condition"), "-is:own")
	assert.Zero(t, b.count("#own"))
	assert.Equal(t, 2, b.count("#rows tr"))
	b.click("#clear")
	b.wait(`document.querySelectorAll('#rows tr').length === 12 && document.querySelector('#own') !== null`)
}

func TestStreamContinuesAfterDisconnect(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Before", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.waitText(row(1), "Before")
	b.run(`window.cut = 0; new MutationObserver(() => { window.cut += document.querySelector('#live').dataset.state === 'lost' })
		.observe(document.querySelector('#live'), { attributes: true })`)
	srv.CloseClientConnections()
	post(t, srv.URL, "web", track("m2", "ada", "Meanwhile", `{}`))
	b.wait(`window.cut > 0`)
	b.waitText(row(1), "Meanwhile")
	b.wait(`document.querySelector('#live').dataset.state === 'live'`)
	post(t, srv.URL, "web", track("m3", "ada", "After", `{}`))
	b.waitText(row(1), "After")
	assert.Equal(t, 3, b.count("#rows tr"))
	b.forgive("net::ERR_")
}

func TestHostileTextIsShownAsText(t *testing.T) {
	t.Parallel()
	good := newReceiver(t, http.StatusOK)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", good.URL, "s3cret")}}, "")
	long := strings.Repeat("x", 10_000)
	hostile := []string{
		`<script>window.hacked = 1</script>`, `<img src=x onerror="window.hacked = 1">`, `"><svg onload=window.hacked=1>`,
		`</template></td></tr></table><h1 id="hacked">`, "\u202Egnp.exe\u202C", "\u2066\u2067\u061C right to left", "nul\x00 bell\x07 zero\u200Bwidth\uFEFF",
		`javascript:window.hacked=1`, `{{.}} ${1} ' " \ & &amp; &lt;`, "line\nbreak\u2028separator", "עברית ואנגלית English", "👩‍👩‍👧 café", long,
	}
	for i, text := range hostile {
		post(t, srv.URL, "web", fmt.Sprintf(`{"type":"track","messageId":"m%d","userId":%s,"event":%s,"properties":{%s:%s}}`, i, quote(text), quote(text), quote(text[:min(len(text), 40)]), quote(text)))
	}
	post(t, srv.URL, "web", "{\"type\":\"track\",\"messageId\":\"bad\",\"userId\":\"u\xff\xfe\",\"event\":\"not \xff UTF-8\",\"properties\":{\"\\ud800\":\"\\udfff\"}}")
	b := newTab(t, srv.URL)
	b.open("/")
	assert.Equal(t, len(hostile)+1, b.count("#rows tr"))
	// Send the strings again while the page is live.
	for i, text := range hostile {
		post(t, srv.URL, "web", fmt.Sprintf(`{"type":"identify","messageId":"i%d","userId":%s,"traits":{"a":%s}}`, i, quote(text), quote(text)))
	}
	b.wait(fmt.Sprintf(`document.querySelectorAll('#rows tr').length === %d`, 2*len(hostile)+1))
	b.shoot("hostile")
	for n := 1; n <= len(hostile)+1; n++ {
		at := row(len(hostile) + n)
		b.click(at + " a")
		b.wait(fmt.Sprintf(`document.querySelector('#panel [data-ref]')?.dataset.ref === document.querySelector(%s).dataset.ref`, quote(at)))
	}
	b.waitText("#panel", "<script>window.hacked = 1</script>")
	assert.True(t, eval[bool](b, `window.hacked === undefined && document.getElementById('hacked') === null`))
	assert.Equal(t, 1, b.count("main h1"))
	assert.True(t, eval[bool](b, `document.documentElement.scrollWidth <= innerWidth && document.querySelector('#panel').scrollWidth <= document.querySelector('#panel').clientWidth`), "nothing is pushed out of the page")
	assert.Contains(t, b.text("#rows"), "U+202E")
	b.open("/signatures?destination=hook&call=" + eval[string](b, `document.querySelector('`+row(len(hostile)+4)+`').dataset.ref`))
	b.wait(`document.documentElement.scrollWidth <= innerWidth`)
}
