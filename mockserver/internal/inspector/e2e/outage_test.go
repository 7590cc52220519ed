package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
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

// point moves the mouse to an element.
func (b *tab) point(selector string) {
	b.t.Helper()
	at := await[[]float64](b, `(() => { const box = document.querySelector(`+quote(selector)+`).getBoundingClientRect()
		return [box.x + box.width / 2, box.y + box.height / 2] })()`)
	command(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: at[0], Y: at[1]})
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
	states := func() string { return b.text("#tip:popover-open") }
	b.point(row(1) + " .c-state")
	b.wait(`document.querySelector('#tip:popover-open') !== null`)
	assert.Contains(t, states(), "alerts: failed 404")
	assert.Contains(t, states(), "warehouse: delivered")
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
