package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestWriteKeysAreRevealedAndCopied(t *testing.T) {
	t.Parallel()
	script := axe(t)
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-write-key"}, {Name: "ios", WriteKey: "ios-write-key", CallsPerSecond: 500}}}, "")
	b := newTab(t, srv.URL)
	b.open("/sources")
	judgeLightAndDark(b, script, "sources")
	assert.Equal(t, 2, b.count("tbody tr"))
	assert.NotContains(t, eval[string](b, `document.documentElement.outerHTML`), "web-write-key")
	shootWidths(b, "sources")

	b.run(`navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve() }`)
	b.click("tbody tr:last-child [data-copy-from]")
	b.wait(`window.copied === 'ios-write-key'`)
	b.waitText("tbody tr:last-child [data-copy-from]", "Copied")
	assert.Equal(t, "Copied", b.text("[role=status]#copied"))
	b.click("tbody a.button")
	b.waitText("#source .address", "web-write-key")
	b.ready()
	assert.Contains(t, b.text("#source pre"), "curl -u web-write-key:")
	judgeLightAndDark(b, script, "a revealed write key")
	shootWidths(b, "source")
	b.look(390, 844, false)
	judge(b, script, "a revealed write key, narrow")
	b.click("#source .close")
	b.wait(`document.querySelector('#source') === null`)
}

// TestCopyAfterTheSession copies a write key after the session has ended. The focus is in the list, which
// therefore does not reload.
func TestCopyAfterTheSession(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-write-key"}}}, adminToken)
	b := newTab(t, srv.URL)
	b.forgive("401")
	b.do(navigate(srv.URL + "/sources"))
	b.typeInto("#token", adminToken)
	b.click("main button")
	b.waitText("h1", "Sources")
	b.ready()
	b.run(`document.querySelector('[data-copy-from]').focus()
		navigator.clipboard.writeText = async (text) => { sessionStorage.copied = text }; undefined`)
	command(b, network.ClearBrowserCookies, cdp.Empty{})
	b.press(kb.Enter)
	b.waitText("h1", "Log in")
	assert.Equal(t, "/login?to=%2Fsources", eval[string](b, `location.pathname + location.search`))
	assert.Empty(t, eval[string](b, `sessionStorage.copied ?? ''`))
}
