package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// outage starts a collector with five destinations, of which two fail and one is down.
func outage(t *testing.T) (*httptest.Server, *engine.Collector) {
	t.Helper()
	good, gone, busy := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound), newReceiver(t, http.StatusServiceUnavailable)
	down := newReceiver(t, http.StatusOK)
	down.Close()
	return serve(t, engine.Config{
		AnyWriteKey: true, Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{
			to("warehouse", good.URL, "s3cret"), to("archive", good.URL, ""), to("crm", busy.URL, "s3cret"), to("alerts", gone.URL, ""), to("push", down.URL, ""),
		},
	}, "")
}

// point moves the mouse to an element and returns its position.
func (b *tab) point(selector string) (x, y float64) {
	b.t.Helper()
	at := await[[]float64](b, `(() => { const box = document.querySelector(`+quote(selector)+`).getBoundingClientRect()
		return [box.x + box.width / 2, box.y + box.height / 2] })()`)
	command(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: at[0], Y: at[1]})
	return at[0], at[1]
}

func TestPanelLeadsWithTheCause(t *testing.T) {
	t.Parallel()
	srv, _ := outage(t)
	post(t, srv.URL, "web-key", track("m1", "ada", "Order Completed", `{"items":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelector('#rows .is-failed') !== null`)
	ref := eval[string](b, `document.querySelector('#rows tr').dataset.ref`)
	for _, width := range []int64{1440, 1024, 390} {
		b.look(width, 844, false)
		b.open("/?call=" + ref)
		assert.Equal(t, []string{"Destinations", "Attempts", "Call", "Corrections"}, eval[[]string](b, `[...document.querySelectorAll('#panel h3')].map((h) => h.firstChild.textContent.trim())`))
		assert.Equal(t, "alerts", b.text("#panel .destination h4"))
		assert.Equal(t, "failed 404", b.text("#panel .destination .state"))
		assert.Contains(t, b.text("#panel .destination .reason"), `responded with 404 (Not Found): {"answer": 404`)
		assert.Less(t, eval[float64](b, `document.querySelector('#panel .reason').getBoundingClientRect().bottom`), 500.0, "width %d", width)
	}
}

func TestRowsNameFailingDestinationsOnOneLine(t *testing.T) {
	t.Parallel()
	srv, _ := outage(t)
	post(t, srv.URL, "web-key", track("m1", "ada", "Order Completed", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	for _, width := range []int64{1440, 1024, 390} {
		b.look(width, 844, false)
		b.waitText(row(1)+" .c-state", "failed: alerts 404+4")
		assert.Less(t, eval[float64](b, `document.querySelector('#rows .c-state').getBoundingClientRect().height`), 31.0, "width %d", width)
	}
	b.look(1440, 844, false)
	b.open("/") // a scroll event of the previous layout would close the popover
	b.waitText(row(1)+" .c-state", "failed: alerts 404+4")
	states := func() string { return b.text("#tip:popover-open") }
	shown := ""
	for until := time.Now().Add(patience); !strings.Contains(shown, "alerts: failed 404") && time.Now().Before(until); shown = states() {
		b.point("h1, #count") // an update of the page can move the row away from the pointer
		b.point(row(1) + " .c-state")
	}
	assert.Contains(t, shown, "alerts: failed 404")
	assert.Contains(t, shown, "warehouse: delivered")
	b.point("h1, #count")
	b.wait(`document.querySelector('#tip:popover-open') === null`)
	b.press("j")
	b.wait(`document.querySelector('#tip:popover-open') !== null`)
	assert.Contains(t, states(), "archive: delivered")
	assert.Equal(t, "tip", eval[string](b, `document.activeElement.getAttribute('aria-describedby')`))
	b.press(kb.Tab)
	b.wait(`document.querySelector('#tip:popover-open') === null`)
}

func TestCallsOfOtherDaysShowTheirDate(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Home", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	assert.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3}$`, b.text(row(1)+" time"))
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: fmt.Sprintf(`Date = class extends Date { constructor(...args) { super(...args.length ? args : [new.target.now() + %d]) } }`, 2*24*60*60*1000),
	})
	b.open("/")
	assert.Regexp(t, `^[A-Z][a-z]{2} \d+ \d\d:\d\d$`, b.text(row(1)+" time"))
}

// flood sends 50 calls per second until stop is called.
func flood(t *testing.T, base string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // the calls end before the server closes
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			body := `{"writeKey":"web","batch":[` + track(fmt.Sprint("flood-", n), "ada", fmt.Sprint("Event ", n), `{"plan":"Pro"}`) + `]}`
			res, err := http.Post(base+"/v1/batch", "application/json", strings.NewReader(body)) //nolint:noctx // ends with the test's server
			if !assert.NoError(t, err) {
				return
			}
			_ = res.Body.Close()
			assert.Equal(t, http.StatusOK, res.StatusCode)
			<-tick.C
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// awaitCalls waits until the page has counted more calls.
func (b *tab) awaitCalls(more int) {
	b.t.Helper()
	const counted = `parseInt(document.querySelector('#count b').textContent.replace(',', ''))`
	b.wait(fmt.Sprintf(`%s >= %d`, counted, eval[int](b, counted)+more))
}

func TestClickOpensTheAimedCall(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	stop := flood(t, srv.URL)
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows tr').length > 20`)
	x, y := b.point(row(9) + " .c-time")
	aimed := eval[string](b, fmt.Sprintf(`document.elementFromPoint(%f, %f).closest('.row').dataset.ref`, x, y))
	b.awaitCalls(15) // 300 ms
	b.do(chromedp.MouseClickXY(x, y))
	b.wait(`document.querySelector('#panel [data-ref]') !== null`)
	assert.Equal(t, aimed, eval[string](b, `document.querySelector('#panel [data-ref]').dataset.ref`))

	// The open call stays in its place while the mouse is elsewhere.
	const place = `document.querySelector('#rows .is-open')?.getBoundingClientRect().top ?? -1`
	before := eval[float64](b, place)
	b.point("#panel h2")
	b.awaitCalls(30)
	assert.InDelta(t, before, eval[float64](b, place), 0)
	b.waitText("#fresh", "new calls")
	stop()
	b.click("#fresh")
	b.wait(`document.querySelector('#fresh').hidden`)
	assert.NotEqual(t, aimed, eval[string](b, `document.querySelector('#rows tr').dataset.ref`))
}

func TestListIsHeldDuringFocusAndSelection(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	flood(t, srv.URL)
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows tr').length > 20`)
	for name, hold := range map[string]struct{ begin, end string }{
		"focus":     {`document.querySelector('#rows a').focus()`, `document.activeElement.blur()`},
		"selection": {`getSelection().selectAllChildren(document.querySelector('#rows .preview'))`, `getSelection().removeAllRanges()`},
	} {
		first := eval[string](b, hold.begin+`; document.querySelector('#rows tr').dataset.ref`)
		b.awaitCalls(30)
		assert.Equal(t, first, eval[string](b, `document.querySelector('#rows tr').dataset.ref`), name)
		b.waitText("#fresh", "new calls")
		b.run(hold.end)
		b.wait(`document.querySelector('#rows tr').dataset.ref !== ` + quote(first) + ` && document.querySelector('#fresh').hidden`)
	}
}

// TestHeldRowsAreUpdated holds the list while more calls arrive than it has rows.
func TestHeldRowsAreUpdated(t *testing.T) {
	t.Parallel()
	respond := make(chan struct{})
	release := sync.OnceFunc(func() { close(respond) })
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-respond:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hook.Close)
	srv, _ := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "web-key"}, {Name: "ios", WriteKey: "ios-key"}},
		Destinations: []tracking.Destination{to("hook", hook.URL, "", "web")},
	}, "")
	t.Cleanup(release)
	post(t, srv.URL, "web-key", track("m1", "ada", "First", `{}`), track("m2", "ada", "Second", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.click(row(1) + " a")
	b.waitText("#panel .state", "pending")
	for n := range 20 {
		var calls []string
		for m := range 30 {
			calls = append(calls, track(fmt.Sprint("m", n, "-", m), "ken", "Later", `{}`))
		}
		post(t, srv.URL, "ios-key", calls...)
		b.waitText("#fresh", fmt.Sprintf("Show %d new calls", 30*(n+1)))
	}
	b.waitText("#count", "602 calls")
	assert.Equal(t, 2, b.count("#rows tr"))
	release()
	b.waitText("#panel .state", "delivered")
	b.wait(`document.querySelectorAll('#rows .is-delivered').length === 2`)
}

// TestNewMatchesAreCountedWhileTheListIsHeld holds a search that older calls begin to match.
func TestNewMatchesAreCountedWhileTheListIsHeld(t *testing.T) {
	t.Parallel()
	respond := make(chan struct{})
	release := sync.OnceFunc(func() { close(respond) })
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-respond:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(hook.Close)
	srv, _ := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{to("hook", hook.URL, "", "web")},
	}, "")
	t.Cleanup(release)
	b := newTab(t, srv.URL)
	post(t, srv.URL, "web-key", track("m1", "ada", "First", `{}`), track("m2", "ada", "Second", `{}`))
	b.open("/?q=status:failed")
	b.click("#pause")
	release()
	b.waitText("#fresh", "Show 2 new calls")
	b.click("#fresh")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 2`)
}

// TestHighlightFollowsThePanel selects a call while the collector does not respond.
func TestHighlightFollowsThePanel(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	post(t, srv.URL, "web", track("m1", "ada", "First", `{}`), track("m2", "ada", "Second", `{}`), track("m3", "ada", "Third", `{}`))
	var down atomic.Bool
	b := newTab(t, front(t, srv.URL, func(w http.ResponseWriter, r *http.Request) bool {
		if !down.Load() || !strings.HasPrefix(r.URL.Path, "/calls/") {
			return false
		}
		connection, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			connection.Close()
		}
		return true
	}))
	b.forgive("net::ERR_")
	b.open("/")
	b.click(row(1) + " a")
	b.waitText("#panel h2", "Third")
	down.Store(true)
	b.click(row(2) + " a")
	b.click(row(3) + " a")
	b.waitText("#toast", "The collector did not respond.")
	b.wait(`!document.querySelector('#panel').classList.contains('is-busy')`)
	const refs = `[document.querySelector('#panel [data-ref]').dataset.ref, ...[...document.querySelectorAll('#rows .is-open')].map((e) => e.dataset.ref), new URLSearchParams(location.search).get('call')]`
	shown := eval[[]string](b, refs)
	assert.Equal(t, []string{shown[0], shown[0], shown[0]}, shown)
	assert.Contains(t, b.text("#panel h2"), "Third")
	down.Store(false)
	b.click(row(2) + " a")
	b.waitText("#panel h2", "Second")
	shown = eval[[]string](b, refs)
	assert.Equal(t, []string{shown[0], shown[0], shown[0]}, shown)
}

// TestReplayReportsItsResult replays a call with a scrolled panel.
func TestReplayReportsItsResult(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{"list":[`+strings.Repeat(`1,`, 60)+`1]}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 1`)
	b.click(row(1) + " a")
	b.waitText("#panel .destination", "failed")
	b.run(`document.querySelector('#panel').scrollTop = 60`)
	b.tabTo("#panel .destination form button")
	gone.status.Store(http.StatusOK)
	b.press(kb.Enter)
	// A live region is visible if it contains the topmost element at its center.
	b.wait(`[...document.querySelectorAll('[role=status]')].some((status) => {
		const box = status.getBoundingClientRect()
		return status.textContent.includes('hook') && status.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2))
	})`)
	b.waitText("#panel .destination .state", "delivered")
	assert.Equal(t, "Replay", eval[string](b, `document.activeElement.textContent`))
	b.waitText("#toast", "hook: delivered")
	assert.Positive(t, eval[float64](b, `document.querySelector('#panel').scrollTop`))
}
