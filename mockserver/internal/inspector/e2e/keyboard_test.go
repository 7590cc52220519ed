package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// tabTo presses Tab until an element has the focus. The focus must always be visible.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	const stops = 60
	for range stops {
		b.press(kb.Tab)
		at := eval[struct {
			There, Seen bool
			HTML        string
		}](b, fmt.Sprintf(`(() => { const at = document.activeElement, look = getComputedStyle(at), box = at.getBoundingClientRect()
			return { there: at.matches(%s), html: at.outerHTML.slice(0, 200),
				seen: at === document.body || at.matches(':focus-visible') && look.outlineStyle !== 'none' && box.bottom > 0 && box.right > 0 } })()`, quote(selector)))
		assert.True(b.t, at.Seen, "nobody sees that the focus is at %s", at.HTML)
		if at.There {
			return
		}
	}
	require.Fail(b.t, "no stop", "%d stops, and none is %s", stops, selector)
}

func TestKeyboardNavigation(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, http.StatusNotFound)
	srv, collector := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", gone.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`), `{"type":"page","userId":"ada","name":"Home"}`)
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length === 2`)

	b.tabTo(".skip")
	b.press(kb.Enter)
	b.wait(`document.activeElement.id === 'main'`)
	b.tabTo("#q")
	b.insert("type:tr")
	b.waitSuggested("type:track")
	b.press(kb.ArrowDown)
	b.wait(`document.activeElement.getAttribute('aria-activedescendant') === 'suggestion-0'`)
	b.press(kb.Enter)
	b.waitText("#count", "1 of 2 calls matches")
	b.tabTo("#pause")
	b.press(" ")
	b.waitText("#live", "Paused")
	b.press(" ")
	b.waitText("#live", "Live")
	b.tabTo("#clear")
	b.press(kb.Enter)
	b.waitText("#count", "2 calls")

	b.tabTo("#rows a") // the list is a single tab stop
	b.press(kb.ArrowDown)
	b.press(kb.Enter)
	b.waitText("#panel h2", "Signed Up")
	b.tabTo("#panel .destination button")
	b.press(kb.Enter)
	b.wait(`document.querySelectorAll('#panel .attempt').length === 2`)
	b.press(kb.Escape)
	b.wait(`document.querySelector('#panel').hidden && document.activeElement.closest('tr')`)

	b.open("/")
	b.tabTo(`.top a[href="/destinations"]`)
	b.press(kb.Enter)
	b.waitText("h1", "Destinations")
	b.ready()
	b.tabTo(`a[href="/destinations/new"]`)
	b.press(kb.Enter)
	b.waitText("h1", "New destination")
	b.ready()
	b.tabTo("#name")
	b.press("by keys")
	b.tabTo("#url0")
	b.press(gone.URL)
	b.tabTo(".save .primary")
	b.press(kb.Enter)
	b.waitText("h1", "by keys")
	assert.Len(t, collector.Settings().Destinations, 2)
}

// TestEscapeEndsBrowsing presses Escape before the next call is loaded.
func TestEscapeEndsBrowsing(t *testing.T) {
	t.Parallel()
	b := shop(t)
	b.press("j" + kb.Enter)
	b.waitText("#panel h2", "Order Completed")
	b.run(`(() => {
		for (const key of ['ArrowDown', 'Escape']) document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }))
		return new Promise((done) => setTimeout(done, 200)) // the delay of browsing is 120 ms
	})()`)
	assert.True(t, eval[bool](b, `document.querySelector('#panel').hidden && !document.querySelector('.row.is-open')`))
}
